"""What an id index was made with: horizon, capacity, and the key of its hashes. A small file beside the index.

The key is made once, so that all processes hash alike. Where the file was damaged, another is made. Knows nothing of
the index itself.
"""

from __future__ import annotations

import logging
import os
import secrets
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple, Self

from tidegate import checked_json
from tidegate.errors import SettingError, StoreError, shown
from tidegate.store.log_tail import sync_directory

__all__ = ["IdentitySettings"]

_FILE, _FORMAT = "settings.json", 1
_HORIZON, _CAPACITY = timedelta(days=1), 10_000_000
#: Entries of an id index have places of 32 bits.
_MOST = 1 << 31
_MICROSECOND = timedelta(microseconds=1)
_log = logging.getLogger("tidegate")


class IdentitySettings(NamedTuple):
    """Horizon in µs, identities at most, the halves of the key, and where this is written."""

    horizon: int
    capacity: int
    key: tuple[int, int]
    directory: Path

    @classmethod
    def used(cls, directory: Path, horizon: timedelta | None, capacity: int | None) -> Self:
        """The settings in a directory, which is made if need be, with those changed that are given."""
        if horizon is not None and horizon <= timedelta(0):
            raise SettingError("a horizon above 0", shown(horizon))
        if capacity is not None and not 1 <= capacity < _MOST:
            raise SettingError(f"a capacity of 1 to {_MOST - 1}", shown(capacity))
        try:
            directory.mkdir(parents=True, exist_ok=True)
            found = cls._read(directory) or cls._first(directory)
            wanted = found
            if horizon is not None:
                wanted = wanted._replace(horizon=horizon // _MICROSECOND)
            if capacity is not None:
                wanted = wanted._replace(capacity=capacity)
            if wanted != found:
                os.rename(wanted._aside(), directory / _FILE)
                sync_directory(directory)
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            got = f"{error.strerror or error}"
            raise StoreError("a directory for an id index", got, str(directory)) from None
        return wanted

    def again(self) -> Self:
        """The settings as they are now: another process may have changed them."""
        return self.used(self.directory, None, None)

    @classmethod
    def _read(cls, directory: Path) -> Self | None:
        path = directory / _FILE
        try:
            facts = checked_json.unpacked(path.read_bytes())
            if facts["format"] == _FORMAT:
                one, two = facts["key"]
                return cls(int(facts["horizon"]), int(facts["capacity"]), (int(one), int(two)), directory)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            _log.warning("the settings of the id index are damaged and made again: %s: %s", path, error)
            path.unlink(missing_ok=True)
            return None
        newer = ", of a newer Tidegate" if facts["format"] > _FORMAT else ""
        raise StoreError(f"an id index of format {_FORMAT}", f"format {facts['format']}{newer}", str(path))

    @classmethod
    def _first(cls, directory: Path) -> Self:
        """Settings of a new index. Of several processes that make them at once, one wins."""
        key = secrets.randbits(63), secrets.randbits(63)
        aside = cls(_HORIZON // _MICROSECOND, _CAPACITY, key, directory)._aside()
        try:
            with suppress(FileExistsError):
                os.link(aside, directory / _FILE)
        finally:
            aside.unlink(missing_ok=True)
        sync_directory(directory)
        found = cls._read(directory)
        if found is None:
            raise StoreError("settings of an id index", "none, a moment after they were written", str(directory))
        return found

    def _aside(self) -> Path:
        """A file of these settings beside the one that is used."""
        path = self.directory / f".{_FILE}-{os.getpid()}-{secrets.token_hex(4)}"
        facts = {"format": _FORMAT, "horizon": self.horizon, "capacity": self.capacity, "key": list(self.key)}
        with path.open("wb") as file:
            file.write(checked_json.packed(facts))
            file.flush()
            os.fsync(file.fileno())
        return path
