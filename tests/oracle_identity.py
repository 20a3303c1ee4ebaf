"""The ids of notifications as docs/LANGUAGE.md defines them, in plain Python: knows nothing of the kernels."""

from __future__ import annotations

from tidegate.model import Publication

_WORD = (1 << 64) - 1
#: As the numbers 0 to 3.
PHASES = (None, "START", "INSTANT", "END")


def mixed(x: int) -> int:
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    x = (x ^ x >> 27) * 0x94D049BB133111EB & _WORD
    return x ^ x >> 31


def text_hash(text: str) -> tuple[int, int]:
    one, two = 0xCBF29CE484222325, 0x9AE16A3B2F90404F
    for byte in text.encode():
        one = (one ^ byte) * 0x100000001B3 & _WORD
        two = (two + byte) * 0xC6A4A7935BD1E995 & _WORD
        two ^= two >> 29
    return mixed(one), mixed(two)


def publication_hash(publication: Publication) -> tuple[int, int]:
    """Of what a publication is known by: its source, its id and its phase."""
    phase = PHASES.index(publication.phase)
    pairs = zip(text_hash(publication.id), text_hash(publication.source), strict=True)
    one, two = (mixed((id + mixed((source + phase) & _WORD)) & _WORD) for id, source in pairs)
    return one, two


def list_hash(publications: list[Publication]) -> tuple[int, int]:
    """Of the publications of a pattern's notification, in order."""
    halves = [len(publications)] * 2
    for publication in publications:
        for half, part in enumerate(publication_hash(publication)):
            halves[half] = mixed((halves[half] + mixed(part)) & _WORD)
    return halves[0], halves[1]


def notification_id(subscription: str, told: tuple[int, int], time: int) -> str:
    """32 digits, from the id of a subscription, the hash of what it is told of, and microseconds since 1970."""
    when = mixed(time & _WORD)
    pairs = zip(text_hash(subscription), told, strict=True)
    return "".join(f"{mixed((mine + mixed(theirs ^ when)) & _WORD):016x}" for mine, theirs in pairs)
