"""The process that computes a rehearsal: it gets a task on its standard input, writes how far it is to its standard
output, a line of JSON each time, and ends with whoever started it. It has little memory and gives way to the broker.
"""

from __future__ import annotations

import os
import resource
import sys
from time import monotonic

import msgspec

from tidegate.broker.supervised import follow_starter, next_message

__all__ = ["main"]

#: Bytes of memory, and seconds of its processor beyond those of the task: for its start, and kernels to be compiled.
_MEMORY, _MORE = 3 << 30, 60
#: Seconds between two lines.
_EVERY = 0.2


def main() -> None:
    """Compute one rehearsal."""
    task_line = next_message()
    if task_line is None:
        return
    follow_starter()
    os.nice(5)
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    from tidegate.errors import TidegateError  # the starter waits, and may change its mind
    from tidegate.gateway.rehearsal import rehearsed
    from tidegate.gateway.rehearsal_states import RehearsalState, RehearsalTask

    task = msgspec.json.decode(task_line, type=RehearsalTask)
    most = int(task.seconds) + _MORE
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    said = -_EVERY
    try:
        for state in rehearsed(task):
            if state.is_over or monotonic() - said >= _EVERY:
                _say(state)
                said = monotonic()
    except TidegateError as error:
        _say(RehearsalState(task.begin, is_over=True, refused=(error.code, error.expected, error.got, error.at)))


def _say(state: msgspec.Struct) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(state) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
