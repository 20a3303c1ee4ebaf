"""Which questions to the ontology each subscription was compiled with, and a digest of each answer.

When another ontology is loaded, ``OntologyAnswers.renew`` asks all questions again and names the subscriptions for
which an answer has changed; the engine compiles those again. The digests are saved in snapshots. ``Index`` itself
knows nothing of ontologies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
import orjson
from numpy.typing import NDArray

from tidegate.errors import SnapshotError
from tidegate.index.snapshot import count
from tidegate.ontologies import current
from tidegate.predicates.ontology import Question, answer

__all__ = ["OntologyAnswers"]

_FILE = "asked.json"
#: A version that no ontology has.
_UNKNOWN = -1


class OntologyAnswers:
    """Questions, the digests of their answers, and the numbers of the subscriptions that ask them."""

    def __init__(self) -> None:
        self.version = current.version()
        """The version of the ontology that all answers are from."""
        self._digests: dict[Question, bytes] = {}
        self._askers: dict[Question, set[int]] = {}
        self._questions: dict[int, tuple[Question, ...]] = {}

    def __len__(self) -> int:
        """How many subscriptions ask the ontology anything."""
        return len(self._questions)

    def note(self, number: int, asked: Mapping[Question, tuple[str, ...]]) -> None:
        """Record that a subscription was compiled with these answers."""
        self._questions[number] = tuple(asked)
        for question, texts in asked.items():
            askers = self._askers.setdefault(question, set())
            if not askers:
                self._digests[question] = _digest(texts)
            askers.add(number)
            if answer(question) is not texts:  # another ontology was loaded in between
                self._digests[question] = b""
                self.version = _UNKNOWN

    def forget(self, number: int) -> None:
        """Drop the questions of a subscription that has been removed."""
        for question in self._questions.pop(number, ()):
            self._askers[question].discard(number)
            if not self._askers[question]:
                del self._askers[question], self._digests[question]

    def renew(self) -> list[int]:
        """Ask all questions again; the numbers of the subscriptions for which an answer has changed."""
        self.version = current.version()
        found: set[int] = set()
        if self.version:  # without any ontology what was compiled stays
            for question, digest in self._digests.items():
                if (now := _digest(answer(question))) != digest:
                    self._digests[question] = now
                    found |= self._askers[question]
        return sorted(found)

    # --- keeping ----------------------------------------------------------------------------------------------------

    def save(self, directory: Path, place: NDArray[np.int64]) -> None:
        """Write ``asked.json`` beside an index, if there are questions; ``place`` gives subscriptions new numbers."""
        if self._digests:
            rows = [
                [question.relation, question.about, digest.hex(), place[sorted(self._askers[question])].tolist()]
                for question, digest in self._digests.items()
            ]
            (directory / _FILE).write_bytes(orjson.dumps(rows))

    @classmethod
    def load(cls, directories: Sequence[Path]) -> OntologyAnswers:
        """What several snapshots saved, together; ``renew`` then finds out whether the answers still hold."""
        found, first = cls(), 0
        questions: dict[int, list[Question]] = {}
        for directory in directories:
            try:
                rows = orjson.loads((directory / _FILE).read_bytes()) if (directory / _FILE).exists() else []
                for relation, about, digest, askers in rows:
                    question = Question(relation, tuple(about))
                    known = bytes.fromhex(digest)
                    same = found._digests.setdefault(question, known) == known
                    found._digests[question] = known if same else b""
                    numbers = [first + asker for asker in askers]
                    found._askers.setdefault(question, set()).update(numbers)
                    for number in numbers:
                        questions.setdefault(number, []).append(question)
                first += count(directory)
            except (OSError, KeyError, TypeError, ValueError) as error:
                wrong = f"{type(error).__name__}: {error}"
                raise SnapshotError("what subscriptions of a snapshot ask an ontology", wrong, str(directory)) from None
        found._questions = {number: tuple(some) for number, some in questions.items()}
        found.version = _UNKNOWN if questions else found.version
        return found


def _digest(texts: tuple[str, ...]) -> bytes:
    return blake2b("\0".join(texts).encode(), digest_size=16).digest()
