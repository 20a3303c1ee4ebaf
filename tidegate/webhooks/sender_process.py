"""The sender of webhooks as a process: ``python -m tidegate.webhooks.sender_process``, which only the supervisor of a
broker starts. Until the broker has an endpoint it sleeps, with next to nothing imported.

Its first message says what broker that is: the directory in which the mark will be, and everything else, which is read
only when the mark is there.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path

from tidegate.broker.supervised import follow_starter, next_message
from tidegate.broker.webhook_mark import mark_of

__all__ = ["main"]

#: Seconds between two looks whether there is an endpoint.
_LOOK = 0.25


def main() -> int:
    """Send until the supervisor says otherwise; the exit code."""
    given = next_message()
    if given is None:
        return 1
    run, _, order = given.partition(b"\0")
    follow_starter()
    _tell()
    mark = mark_of(Path(os.fsdecode(run)))
    while not mark.exists():
        time.sleep(_LOOK)
    from tidegate.webhooks.sending import serve  # which takes seconds and 200 MB

    return serve(order)


def _tell() -> None:
    sys.stdout.buffer.write(b"waits\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    os._exit(code)  # as of a gateway: nobody waits for Python to take itself apart
