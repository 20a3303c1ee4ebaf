"""What a checkpoint belongs to: the query's name, its source and its shards, in the checkpoint's ``tidegate.json``.

``begun`` writes the file when ``Flow`` uses a checkpoint for the first time, and compares with it each time after. The
file also says by which rules notifications were made, so that one checkpoint never has notifications of two kinds.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from uuid import uuid4

from tidegate import checked_json
from tidegate.errors import SettingError, StoreError
from tidegate.store.storage import Storage, storage_at

__all__ = ["SEMANTICS", "Begun", "begun"]

_FILE = "tidegate.json"
#: The format of the file that this Tidegate writes. In format 2 a log beside the checkpoint was named by its path.
#: Format 1 had no ``semantics``, which is then 1, and no checksum.
_FORMAT, _CHECKED_FROM = 3, 2
#: Raised by every change that gives notifications other ids, or tells others. A checkpoint of another number is
#: refused: its state and what it has sent would not fit to what comes. 2: publications are known by their sources too.
#: 3: subscriptions of a registry are called ``subscriber/id``.
SEMANTICS = 3


@dataclass(frozen=True, slots=True)
class Begun:
    """The query's name, its source, whether and over how many shards patterns are spread, and which runner runs it."""

    query: str
    source: str
    patterns: bool
    shards: int
    runner: str = "spark"


def begun(
    checkpoint: str, source: str, patterns: bool, shards: int, runner: str = "spark", former: str | None = None
) -> Begun:
    """What a checkpoint was begun with; its file is written if it is new.

    Another source or runner, or another choice of ``patterns``, is refused. The number of shards stays what it was.
    ``former`` is what the source was called by format 2; the file is then written anew.
    """
    storage = storage_at(checkpoint)
    data = storage.read(_FILE)
    if data is None:
        return _written(storage, Begun(uuid4().hex, source, patterns, shards, runner))
    try:
        facts = checked_json.unpacked(data, checked_from=_CHECKED_FROM)
        form, semantics = facts.pop("format"), facts.pop("semantics", 1)
        if form not in range(1, _FORMAT + 1):
            raise StoreError(f"a checkpoint of format {_FORMAT}", f"format {form}", checkpoint)
        if semantics != SEMANTICS:
            raise _other_semantics(semantics, checkpoint)
        known = Begun(**facts)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, StoreError):
            raise
        got = f"{type(error).__name__}: {error}"
        raise StoreError("a checkpoint of tidegate run", got, f"{checkpoint}/{_FILE}") from None
    if known.runner != runner:
        raise SettingError(f"the runner that this checkpoint was begun with: {known.runner}", runner, checkpoint)
    if known.source != (former if form < _FORMAT and former is not None else source):
        raise SettingError(f"the source that this checkpoint belongs to: {known.source}", source, checkpoint)
    if known.patterns != patterns:
        raise SettingError(f"patterns as this checkpoint was begun: {known.patterns}", f"{patterns}", checkpoint)
    return known if form == _FORMAT else _written(storage, replace(known, source=source))


def _written(storage: Storage, known: Begun) -> Begun:
    storage.write(_FILE, checked_json.packed({"format": _FORMAT, "semantics": SEMANTICS, **asdict(known)}))
    return known


def _other_semantics(semantics: object, checkpoint: str) -> StoreError:
    whose = "of a newer Tidegate"
    if isinstance(semantics, int) and semantics < SEMANTICS:
        whose = "of an earlier Tidegate: end it there (tidegate run FILE --available-now), then take a new checkpoint"
    return StoreError(f"a checkpoint of semantics {SEMANTICS}", f"semantics {semantics}, {whose}", checkpoint)
