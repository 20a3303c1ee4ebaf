"""What a checkpoint belongs to: the query's name, its source and its shards, in the checkpoint's ``tidegate.json``.

``begun`` writes the file when ``Flow`` uses a checkpoint for the first time, and compares with it each time after. The
file also says by which rules notifications were made, so that one checkpoint never has notifications of two kinds.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from uuid import uuid4

from tidegate import checked_json
from tidegate.errors import SettingError, StoreError
from tidegate.store.storage import storage_at

__all__ = ["SEMANTICS", "Begun", "begun"]

_FILE = "tidegate.json"
#: The format of the file that this Tidegate writes. Format 1 had no ``semantics``, which is then 1.
_FORMAT = 2
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


def begun(checkpoint: str, source: str, patterns: bool, shards: int, runner: str = "spark") -> Begun:
    """What a checkpoint was begun with; its file is written if it is new.

    Another source or runner, or another choice of ``patterns``, is refused. The number of shards stays what it was.
    """
    storage = storage_at(checkpoint)
    data = storage.read(_FILE)
    if data is None:
        fresh = Begun(uuid4().hex, source, patterns, shards, runner)
        storage.write(_FILE, checked_json.packed({"format": _FORMAT, "semantics": SEMANTICS, **asdict(fresh)}))
        return fresh
    try:
        facts = checked_json.unpacked(data, checked_from=_FORMAT)
        form, semantics = facts.pop("format"), facts.pop("semantics", 1)
        if form not in (1, _FORMAT):
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
    if known.source != source:
        raise SettingError(f"the source that this checkpoint belongs to: {known.source}", source, checkpoint)
    if known.patterns != patterns:
        raise SettingError(f"patterns as this checkpoint was begun: {known.patterns}", f"{patterns}", checkpoint)
    return known


def _other_semantics(semantics: object, checkpoint: str) -> StoreError:
    whose = "of a newer Tidegate"
    if isinstance(semantics, int) and semantics < SEMANTICS:
        whose = "of an earlier Tidegate: end it there (tidegate run FILE --available-now), then take a new checkpoint"
    return StoreError(f"a checkpoint of semantics {SEMANTICS}", f"semantics {semantics}, {whose}", checkpoint)
