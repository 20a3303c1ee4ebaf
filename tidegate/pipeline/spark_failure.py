"""``failure``: turns what Spark raises into one sentence. Stack traces of the JVM and of workers are for the log."""

from __future__ import annotations

import re

from tidegate.errors import PipelineError, TidegateError

__all__ = ["failure"]

#: The last line of a Python traceback: an exception's name and what it says. What py4j says only announces Java's.
_PYTHON = re.compile(
    r"^(?!py4j\.)([A-Za-z_][\w.]*(?:Error|Exception|Subscription|Mismatch|Function|Interrupt)): (.+)$", re.M
)
#: One of our own, raised in a worker.
_SENTENCE = re.compile(r"^tidegate\.errors\.\w+: expected (.+?); got (.+?)(?:; at (.+))?$", re.M)
_SPARK = re.compile(r"\[([A-Z0-9_.]+)\] (.+)")
#: An exception of Java, at the beginning of its stack trace.
_JAVA = re.compile(r"^: [\w.$]+: (.+)$", re.M)
#: What Spark says of a checkpoint that it cannot read.
_UNREADABLE = re.compile(
    r"Failed to read log file .+|Checksum error: .+"
    r"|\[(?:CANNOT_LOAD_STATE_STORE|STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY)\S* .+"
)
#: Where Spark reads which query a checkpoint belongs to.
_METADATA = "StreamMetadata$.read"
_NOISE = re.compile(r"Query \[id = [^]]*\] terminated with exception: | *SQLSTATE: \w+")


def failure(error: BaseException) -> TidegateError:
    """The error that a user can do something with, found in whatever Spark wrapped around it."""
    if isinstance(error, TidegateError):
        return error
    text = _NOISE.sub("", str(error))
    sentence = _SENTENCE.search(text)
    if sentence is not None:
        return PipelineError(*(part or "" for part in sentence.groups()))
    java = _JAVA.findall(text)
    unreadable = _UNREADABLE.findall(text) or (java if _METADATA in text else [])
    if unreadable:
        return PipelineError("a checkpoint that Spark can read, or a new one with new sinks", unreadable[-1].strip())
    python = [f"{name}: {said}" for name, said in _PYTHON.findall(text)]
    spark = [f"{said} ({code})" for code, said in _SPARK.findall(text)]
    said = next(iter([*reversed(python), *spark, *java, *text.splitlines()]), type(error).__name__)
    return PipelineError("a pipeline that runs", said.strip())
