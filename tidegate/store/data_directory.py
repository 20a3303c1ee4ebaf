"""The data directory of a broker: everything that a run keeps, in one place, with the runner that it belongs to.

    DIR/format.json   what this directory is, and its runner
    DIR/lock          held by the process that runs
    DIR/log           the publications
    DIR/ids           which they are, so that none is taken twice
    DIR/registry.db   subscriptions, principals and tokens; their index is in registry.db.snapshots
    DIR/queues        what principals are told
    DIR/cursors.db    how far they have acknowledged it
    DIR/costs.db      what subscriptions cost, as it was measured
    DIR/valid         the publications that are valid, which the queues' sink keeps
    DIR/runner        the checkpoint of the run
    DIR/quarantine    rows that are no publications
    DIR/run           what the processes of a running broker hold, and tell each other (``broker/broker_record.py``)
    DIR/.backup       what a backup holds while it copies (``broker/held_files.py``)

Each of these has a format of its own. One run at a time uses a directory, and one broker, whose runner that run is;
others may read and append beside it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate import checked_json
from tidegate.errors import SettingError, StoreError
from tidegate.store.directory_lock import DirectoryLock
from tidegate.store.log_tail import sync_directory

if TYPE_CHECKING:
    from tidegate.store.log import Log
    from tidegate.store.validity_limits import ValidityLimits

__all__ = ["DataDirectory", "log_to_append"]

_FILE, _FORMAT = "format.json", 1
#: How the name of a file begins that is written before it is ``format.json``; a crash may leave one.
_ASIDE = f".{_FILE}-"


def log_to_append(path: str | os.PathLike[str], *, version: Callable[[], int]) -> Log:
    """The log in a directory, to append to, as its data directory opens it if it is that of one."""
    from tidegate.store.log import Log

    where = Path(path).absolute()
    data = DataDirectory.found(where.parent)
    return data.open_log(version=version) if data is not None and data.log == where else Log(path, version=version)


class DataDirectory:
    """The places in a data directory. ``made`` makes a new one, ``found`` takes one that is there."""

    def __init__(self, path: Path, runner: str) -> None:
        self.path, self.runner = path, runner
        self.log, self.ids, self.registry = path / "log", path / "ids", path / "registry.db"
        self.queues, self.cursors, self.valid = path / "queues", path / "cursors.db", path / "valid"
        self.costs = path / "costs.db"
        self.checkpoint, self.quarantine, self.run = path / "runner", path / "quarantine", path / "run"

    @staticmethod
    def found(path: str | os.PathLike[str]) -> DataDirectory | None:
        """The data directory at a path; None if there is none."""
        where = Path(path).absolute()
        try:
            facts = checked_json.unpacked((where / _FILE).read_bytes())
            if facts["format"] != _FORMAT:
                newer = ", of a newer Tidegate" if facts["format"] > _FORMAT else ""
                got = f"format {facts['format']}{newer}"
                raise StoreError(f"a data directory of format {_FORMAT}", got, str(where))
            return DataDirectory(where, str(facts["runner"]))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, StoreError):
                raise
            raise StoreError("a data directory", f"{type(error).__name__}: {error}", str(where / _FILE)) from None

    @staticmethod
    def made(path: str | os.PathLike[str], runner: str) -> DataDirectory:
        """The data directory at a path, which is made if need be. One that was made for another runner is refused:
        what a runner has begun, only it can go on with.
        """
        found = DataDirectory.found(path)
        if found is None:
            found = DataDirectory(Path(path).absolute(), runner)
            found._make()
        if found.runner != runner:
            wanted = f"the runner that this data directory was made for: {found.runner}"
            raise SettingError(wanted, runner, str(found.path))
        return found

    def know_for(self, horizon: timedelta) -> None:
        """Know for so long from now on which publications there were."""
        from tidegate.store.identity_settings import IdentitySettings

        IdentitySettings.used(self.ids, horizon, None)

    def open_log(self, *, limits: ValidityLimits | None = None, **settings: Any) -> Log:
        """The log, to append to, with settings of ``Log``. Whoever appends to a data directory opens it so: then each
        publication is taken once, within a horizon, none is valid for too long, and there are not too many that are.
        """
        from tidegate.store.identities import Identities  # for those who append, it takes a while
        from tidegate.store.log import Log
        from tidegate.store.valid_usage import ValidUsage
        from tidegate.store.validity_limits import ValidityLimits

        limits = limits or ValidityLimits(is_full=ValidUsage(self.valid).is_over)
        return Log(self.log, identities=Identities(self.ids), limits=limits, **settings)

    def locked(self) -> DirectoryLock:
        """The lock of the one process that runs the directory."""
        return DirectoryLock(str(self.path), "data directory")

    def _make(self) -> None:
        try:
            if self.path.exists() and any(not path.name.startswith(_ASIDE) for path in self.path.iterdir()):
                got = "a directory with other files"
                raise StoreError("a data directory, or an empty one", got, str(self.path))
            self.path.mkdir(parents=True, exist_ok=True)
            aside = self.path / f"{_ASIDE}{os.getpid()}"
            try:
                with aside.open("wb") as file:
                    file.write(checked_json.packed({"format": _FORMAT, "runner": self.runner}))
                    file.flush()
                    os.fsync(file.fileno())
                with suppress(FileExistsError):  # another process has made it meanwhile
                    os.link(aside, self.path / _FILE)
            finally:
                aside.unlink(missing_ok=True)
            sync_directory(self.path)
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            raise StoreError("a data directory that can be made", f"{error.strerror}", str(self.path)) from None
        made = DataDirectory.found(self.path)
        assert made is not None
        self.runner = made.runner
