"""The numbers of all gateways of a broker, in files in ``DIR/run/numbers``, so that each can show the sums of all.

Each process holds the lock ``ID.lock`` and writes ``ID.json``. When a process starts, it adds what those have left that
live no more to ``ended.json``, which names them until their files are gone: so nothing is counted twice, whenever
somebody is killed. Who adds up holds ``sums.lock`` shared meanwhile.
"""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tidegate import checked_json
from tidegate.gateway.process_numbers import ProcessNumbers

__all__ = ["SharedNumbers"]

_LOG = logging.getLogger("tidegate.gateway")
_FORMAT = 1
_ENDED, _SUMS = "ended", "sums.lock"


class SharedNumbers:
    """The file of this process, and the sums over those of all. May be called by any one thread at a time."""

    def __init__(self, directory: Path) -> None:
        self._directory, self._id = directory, secrets.token_hex(8)
        directory.mkdir(parents=True, exist_ok=True)
        with self._held(fcntl.LOCK_EX):  # nobody takes us for dead between the two lines
            self._lock = os.open(self._path(self._id, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            self._fold()

    def write(self, numbers: ProcessNumbers) -> None:
        """Write what this process has counted. If it cannot be written, what was written before stays."""
        with suppress(OSError):
            self._write(self._id, numbers.as_json())

    def sums(self, own: ProcessNumbers) -> ProcessNumbers:
        """What all have counted, this process ``own``. What is shown is also written: who asks another gateway later,
        when this one was killed, is shown no less.
        """
        self.write(own)
        found = ProcessNumbers()
        with self._held(fcntl.LOCK_SH):
            ended, taken = self._ended()
            found.add(ended, is_alive=False)
            for id in self._ids():
                if id not in taken and id != self._id and (facts := self._read(id)) is not None:
                    found.add(ProcessNumbers.of_json(facts), is_alive=self._lives(id))
        found.add(own)
        return found

    def close(self) -> None:
        """Live no more, for the others."""
        os.close(self._lock)

    # --- those that live no more ------------------------------------------------------------------------------------

    def _fold(self) -> None:
        for unfinished in self._directory.glob(".*.new"):
            unfinished.unlink(missing_ok=True)  # one that is just being written is written again a second later
        sums, taken = self._ended()
        self._remove(taken)
        gone = [id for id in self._ids() if id != self._id and not self._lives(id)]
        for id in gone:
            if (facts := self._read(id)) is not None:
                sums.add(ProcessNumbers.of_json(facts), is_alive=False)
        with suppress(OSError):  # if it cannot be written, their files stay
            self._write(_ENDED, {**sums.as_json(), "taken": gone})
            self._remove(gone)

    def _remove(self, ids: list[str]) -> None:
        for id in ids:
            for kind in ("json", "lock"):
                self._path(id, kind).unlink(missing_ok=True)

    def _ended(self) -> tuple[ProcessNumbers, list[str]]:
        facts = self._read(_ENDED)
        return (ProcessNumbers(), []) if facts is None else (ProcessNumbers.of_json(facts), facts["taken"])

    def _lives(self, id: str) -> bool:
        try:
            descriptor = os.open(self._path(id, "lock"), os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(descriptor)
        return False

    # --- files ------------------------------------------------------------------------------------------------------

    def _ids(self) -> list[str]:
        names = (path.stem for path in self._directory.glob("*.lock") if path.name != _SUMS)
        return sorted({*names, *(path.stem for path in self._directory.glob("*.json") if path.stem != _ENDED)})

    def _path(self, id: str, kind: str) -> Path:
        return self._directory / f"{id}.{kind}"

    def _read(self, id: str) -> dict[str, Any] | None:
        try:
            facts = checked_json.unpacked(self._path(id, "json").read_bytes())
            if facts["format"] == _FORMAT:
                ProcessNumbers.of_json(facts)
                return facts
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            _LOG.warning("what a gateway counted is left out: %s: %s", self._path(id, "json"), error)
        return None

    def _write(self, id: str, facts: dict[str, Any]) -> None:
        aside = self._directory / f".{id}-{self._id}.new"
        aside.write_bytes(checked_json.packed({"format": _FORMAT, **facts}))
        os.replace(aside, self._path(id, "json"))

    @contextmanager
    def _held(self, mode: int) -> Iterator[None]:
        descriptor = os.open(self._directory / _SUMS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, mode)
            yield
        finally:
            os.close(descriptor)
