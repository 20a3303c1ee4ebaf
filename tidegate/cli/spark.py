"""Spark for the length of a command: started with a word about it, and ended afterwards unless it was there before."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["spark_session"]


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
