"""The same done by several threads at once."""

from __future__ import annotations

import threading


def at_once(work, threads=6):
    """None of them fails."""
    failures = []

    def works():
        try:
            work()
        except BaseException as error:
            failures.append(error)

    running = [threading.Thread(target=works) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not failures
