"""``multi-join``: an operator on many sensors is split into joins of two at the node where the paths to them part.

Jurca et al., §III-B, after Chandramouli and Yang (VLDB 2008): in a *binary join* readings of a main sensor pass if a
filtering sensor has one that matches. A join is decided where its two streams meet; from there on its result set is
only routed. A reading crosses a link once and is tagged with the operators in whose result sets it is (``results``). So
readings that match in pairs but not all together travel to the user's node, whose correlator matches the whole operator
and stops them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tidegate.covering.subsumption import Pairwise
from tidegate.errors import SettingError, shown
from tidegate.overlay.correlation_routing import CorrelationRouting, RoutedOperator, Routes, along_paths, for_results
from tidegate.overlay.correlator import Key
from tidegate.overlay.journal import FEW
from tidegate.overlay.messages import LOCAL, Message, Reading, Sync
from tidegate.overlay.operators import Operator
from tidegate.overlay.strategy import Sends

__all__ = ["PAIRINGS", "MultiJoin"]


class MultiJoin(CorrelationRouting):
    """Table II: pairwise filtering, splitting into binary joins, readings once per neighbour.

    The paper treats all sensors alike and does not say which pairs are joined. With ``pairing="ring"`` each part is the
    main part of one join and filters one other; with ``"all"`` every two parts are joined, and each filters the other.
    """

    name = "multi-join"
    shares = False
    crosses_once = True

    def __init__(self, pairing: str = "ring") -> None:
        super().__init__(Pairwise())
        if pairing not in PAIRINGS:
            raise SettingError(f"one of {', '.join(PAIRINGS)}", shown(pairing))
        self.pairing = pairing

    def enter(self, node: str, validity: int) -> None:
        super().enter(node, validity)
        self._now = 0
        # By neighbour, source and id of a reading: its time, and the operators of the neighbour that it was sent for.
        self._sent_for: dict[tuple[str, str, str], tuple[int, set[str]]] = {}
        self._most = FEW
        # By operator that is split: its joins, and their ids.
        self._joins_of: dict[str, tuple[list[Operator], frozenset[str]]] = {}

    def _is_named_again(self, operator: Operator) -> bool:
        return len(operator.parts) > 1  # the neighbour decides by itself only what single readings decide

    # --- operators ----------------------------------------------------------------------------------------------------

    def take(self, message: Message, sender: str, now: int) -> Sends:
        self._now = now
        return super().take(message, sender, now)

    def agree(self, sync: Sync, sender: str, now: int) -> Sends:
        self._now = now
        return super().agree(sync, sender, now)

    def asks(self, operator: Operator) -> Sequence[Operator]:
        if not _is_split(operator):
            return (operator,)
        if operator.id not in self._joins_of:
            joins = [operator.only(pair, main) for pair, main in PAIRINGS[self.pairing](len(operator.parts))]
            self._joins_of[operator.id] = joins, frozenset(join.id for join in joins)
        return self._joins_of[operator.id][0]

    def routes(self, operator: Operator, owner: str) -> Routes:
        simple = along_paths(operator, owner, self.announced)
        whole = all(len(there.parts) == len(operator.parts) for split in simple.values() for there in split)
        if whole or not _is_split(operator):
            return {to: tuple(_as_join(there, operator) for there in split) for to, split in simple.items()}
        return {to: tuple(self._split(operator, split)) for to, split in simple.items()}

    def _split(self, operator: Operator, split: Sequence[Operator]) -> list[Operator]:
        """What one neighbour is asked for: the parts behind it whose partner in a join lies elsewhere, each alone, and
        the joins of which both ends are behind it, unless both come alone: then this node can decide them.
        """
        position = {part.label: i for i, part in enumerate(operator.parts)}
        together = [{position[part.label] for part in there.parts} for there in split]
        here = set().union(*together)
        pairs = PAIRINGS[self.pairing](len(operator.parts))
        inside = [(pair, main) for pair, main in pairs if any(set(pair) <= there for there in together)]
        parted = {end for pair, main in pairs if (pair, main) not in inside for end in pair} & here
        return [
            *(operator.only([i]) for i in sorted(parted)),
            *(operator.only(pair, main) for pair, main in inside if not set(pair) <= parted),
        ]

    def _placed(self, entry: RoutedOperator, owner: str) -> Sends:
        """As for all, and note which neighbours decide the joins of the operator."""
        sends = super()._placed(entry, owner)
        if owner == LOCAL:
            return sends
        wanted: list[tuple[Key, Reading]] = []
        for k, join in enumerate(self.asks(entry.operator)):
            deciding = frozenset(
                to
                for to, asked in entry.routes.items()
                if any(op.id in (join.id, entry.operator.id) and self.forwarded[to].is_asked(op.id) for op in asked)
            )
            key = owner, entry.operator.id, k
            if len(join.parts) == 2 and self.correlator.decide_elsewhere(key, deciding):
                wanted += self.correlator.ask(key, self._now, again=True)
        return [*sends, *self._results(wanted, self._now)]

    def _unsubscribe(self, id: str, sender: str, now: int) -> Sends:
        for (owner, *_), (_, ids) in self._sent_for.items():
            if owner == sender:
                ids.discard(id)
        sends = super()._unsubscribe(id, sender, now)
        self._joins_of.pop(id, None)
        return sends

    # --- readings -----------------------------------------------------------------------------------------------------

    def _reading(self, reading: Reading, sender: str, now: int) -> Sends:
        bare = for_results(reading, ())
        wanted = [] if bare in self.correlator else self.correlator.take(bare, self._origin(sender), now)
        return self._results([*wanted, *((key, bare) for key in self._tagged(reading, sender))], now)

    def _tagged(self, reading: Reading, sender: str) -> Iterable[Key]:
        """The operators that want a reading because its sender has decided so."""
        for id in reading.results:
            for owner, wanted in self.wanted.items():
                if owner in (LOCAL, sender):
                    continue
                if id in wanted:
                    yield owner, id, 0
                whole = id.partition("[")[0]
                if whole in wanted and whole in self._joins_of and id in self._joins_of[whole][1]:
                    yield owner, whole, 0

    def _results(self, wanted: Sequence[tuple[Key, Reading]], now: int) -> Sends:
        return super()._results([(key, reading) for key, reading in wanted if self._is_result(key, reading, now)], now)

    def _is_result(self, key: Key, reading: Reading, now: int) -> bool:
        """Whether a neighbour's operator gets this reading for the first time; of users' the rest is asked later."""
        owner, id, _ = key
        if owner == LOCAL:
            return True
        _, ids = self._sent_for.setdefault((owner, reading.source, reading.id), (reading.time, set()))
        if id in ids:
            return False
        ids.add(id)
        if len(self._sent_for) > self._most:
            oldest = now - self._validity
            self._sent_for = {of: sent for of, sent in self._sent_for.items() if sent[0] >= oldest}
            self._most = max(2 * len(self._sent_for), FEW)
        return True


def _ring(n: int) -> list[tuple[tuple[int, int], int | None]]:
    return [((i, (i + 1) % n), i) for i in range(n)]


def _all(n: int) -> list[tuple[tuple[int, int], int | None]]:
    return [((i, j), None) for i in range(n) for j in range(i + 1, n)]


#: By name: the pairs of so many parts, each with its main part, or with None where both are.
PAIRINGS: dict[str, Callable[[int], list[tuple[tuple[int, int], int | None]]]] = {"ring": _ring, "all": _all}


def _is_split(operator: Operator) -> bool:
    """Whether an operator has joins that stand for it: it has more than two parts."""
    return operator.main is None and len(operator.parts) > 2


def _as_join(there: Operator, operator: Operator) -> Operator:
    """The operator itself where all its parts stay together: what ``along_paths`` made of it has no main part."""
    return operator if len(there.parts) == len(operator.parts) else there
