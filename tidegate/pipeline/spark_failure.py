"""``failure``: turns what Spark raises into one sentence. Stack traces of the JVM and of workers are for the log."""

from __future__ import annotations

import re

from tidegate.errors import PipelineError, TidegateError

__all__ = ["failure"]

#: The last line of a Python traceback: an exception's name and what it says.
_PYTHON = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Subscription|Mismatch|Function|Interrupt)): (.+)$", re.M)
#: One of our own, raised in a worker.
_SENTENCE = re.compile(r"^tidegate\.errors\.\w+: expected (.+?); got (.+?)(?:; at (.+))?$", re.M)
_SPARK = re.compile(r"\[([A-Z0-9_.]+)\] (.+)")


def failure(error: BaseException) -> TidegateError:
    """The error that a user can do something with, found in whatever Spark wrapped around it."""
    if isinstance(error, TidegateError):
        return error
    text = str(error)
    sentence = _SENTENCE.search(text)
    if sentence is not None:
        return PipelineError(*(part or "" for part in sentence.groups()))
    python = [f"{name}: {said}" for name, said in _PYTHON.findall(text)]
    spark = [f"{said} ({code})" for code, said in _SPARK.findall(text)]
    said = next(iter([*reversed(python), *spark, *text.splitlines()]), type(error).__name__)
    return PipelineError("a pipeline that runs", said.strip())
