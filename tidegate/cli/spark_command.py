"""Spark for commands: ``spark_session`` starts it for one command, ``interruptible`` lets Ctrl-C stop a call of it."""

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

#: Seconds between two checks whether Ctrl-C came, and seconds that Spark gets to cancel its jobs.
_LOOK, _PATIENCE = 0.1, 15.0


@contextmanager
def spark_session(start: Callable[[], SparkSession]) -> Iterator[SparkSession]:
    """The session that ``start`` makes, stopped afterwards unless this process had one before.

    After Ctrl-C it is not stopped: its Java ends with this process.
    """
    from tidegate.pipeline.session import is_running

    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # ``failure`` says in one sentence why a batch ended
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
    """The result of ``work``, which runs in a thread: Ctrl-C amid a call of Java would break the connection.

    On Ctrl-C all jobs are cancelled and KeyboardInterrupt is raised.
    """
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
