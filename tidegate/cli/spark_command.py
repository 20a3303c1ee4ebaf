"""Spark for the length of a command: started with a word about it, and ended afterwards unless it was there before."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

import typer

from tidegate.cli.signals import asked_to_stop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["interruptible", "spark_session"]

T = TypeVar("T")

#: Seconds between two looks whether Ctrl-C came, and seconds that Spark has to let go of its tasks.
_LOOK, _PATIENCE = 0.1, 15.0


@contextmanager
def spark_session(start: Callable[[], SparkSession]) -> Iterator[SparkSession]:
    """What ``start`` gives. On Ctrl-C it is left to itself: its Java ends with this process."""
    from tidegate.pipeline.session import is_running

    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # what ends a batch is told in one sentence, elsewhere
    was_there = is_running()
    if not was_there:
        typer.echo("starting Spark …", err=True)
    spark = start()
    interrupted = False
    try:
        yield spark
    except KeyboardInterrupt:
        interrupted = True
        raise
    finally:
        if not was_there and not interrupted:
            spark.stop()


def interruptible(spark: SparkSession, work: Callable[[], T]) -> T:
    """What ``work`` gives, done by a thread: a Ctrl-C amid a call of Java would leave the connection torn."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    with asked_to_stop() as asked:
        thread = Thread(target=run, name="tidegate-spark", daemon=True)
        thread.start()
        while thread.is_alive() and not asked.is_set():
            thread.join(_LOOK)
        if asked.is_set():
            spark.sparkContext.cancelAllJobs()
            thread.join(_PATIENCE)
            raise KeyboardInterrupt
    return done.result()
