"""A log whose publications are valid for a while, and a valid set that follows it, as tests drive them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import tidegate as tg
from tidegate.store.log_frames import Tombstone
from tidegate.store.valid_set import ValidSet

__all__ = ["EPOCH", "Following", "reading", "valid_rows"]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000


def reading(number, until=None, **attributes):
    """A publication that is valid until some seconds after 1970."""
    valid = None if until is None else EPOCH + timedelta(seconds=until)
    return tg.Publication(f"p{number}", "z", EPOCH + timedelta(seconds=number), attributes, valid_until=valid)


class Following:
    """A log and the set that follows it."""

    def __init__(self, directory, segment_bytes=1 << 20, **settings):
        self.directory, self._settings = directory, settings
        self.log = tg.Log(directory / "log", clock=lambda: 0, segment_bytes=segment_bytes)
        self.valid, self._batch = self.opened(), -1

    def opened(self):
        return ValidSet(self.directory / "valid", "run", **self._settings)

    def append(self, *publications):
        return self.log.append(list(publications)).position

    def withdraw(self, *rows):
        return self.log.withdraw([Tombstone("z", f"p{row}", [row]) for row in rows])

    def advance(self, time=0, row=None):
        """A batch that ends at a row, at a time in seconds; the tombstones that were read."""
        self._batch += 1
        with self.valid.changing:
            found = self.valid.advance(self.log, self.log.end if row is None else row, time * SECOND)
            self.valid.settle(self._batch)
        return [(one.row, one.rows.tolist()) for one in found]

    def reopen(self):
        self.valid.close()
        self.valid = self.opened()

    def close(self):
        self.valid.close()
        self.log.close()


def valid_rows(valid):
    """The rows of what is valid, in order."""
    with valid.changing:
        return sorted(row for group in valid.groups() for row in group.rows.row[valid.is_valid(group.rows)].tolist())
