"""Mutations: a few small changes to bytes, to a list of tokens, or to a JSON value."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

_INTERESTING = [
    b"\0",
    b"\xff",
    b"\x80",
    b"\n",
    b"\r\n",
    b'"',
    b"'",
    b"\\",
    b",",
    b"{",
    b"}",
    b"[",
    b"]",
    b"0",
    b"-",
    b"e",
]


def mutated_bytes(data: bytes, random: Random, others: list[bytes]) -> bytes:
    """Bytes flipped, inserted, removed, repeated, cut off, or taken from another input."""
    found = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
        at = random.randrange(len(found) + 1)
        what = random.randrange(7)
        if what == 0 and found:
            found[at % len(found)] ^= 1 << random.randrange(8)
        elif what == 1:
            found[at:at] = random.choice(_INTERESTING)
        elif what == 2:
            del found[at : at + random.choice((1, 1, 2, 5, 20))]
        elif what == 3:
            piece = found[at : at + random.choice((1, 3, 10, 40))]
            found[at:at] = piece * random.choice((1, 1, 2, 9))
        elif what == 4 and random.random() < 0.3:
            del found[at:]
        elif what == 5:
            other = random.choice(others)
            begin = random.randrange(len(other) + 1)
            found[at : at + random.randrange(10)] = other[begin : begin + random.randrange(30)]
        else:
            found[at:at] = random.randbytes(random.choice((1, 2, 4)))
    return bytes(found)


def mutated_tokens(tokens: list[str], random: Random, others: list[str]) -> list[str]:
    """Tokens replaced, inserted, removed, repeated or exchanged; ``others`` are tokens to put in."""
    found = list(tokens)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        at, what = random.randrange(len(found) + 1), random.randrange(6)
        if what == 0 and found:
            found[at % len(found)] = random.choice(others)
        elif what == 1:
            found.insert(at, random.choice(others))
        elif what == 2 and found:
            del found[at % len(found)]
        elif what == 3:
            found[at:at] = found[at : at + random.choice((1, 2, 5))] * random.choice((1, 1, 3))
        elif what == 4 and len(found) > 1:
            a, b = random.randrange(len(found)), random.randrange(len(found))
            found[a], found[b] = found[b], found[a]
        elif found:
            found[at % len(found)] = random.choice(found)
    return found


def mutated_json(value: Any, random: Random, others: list[Any]) -> Any:
    """A value somewhere inside replaced, removed, wrapped or repeated; ``others`` are values to put in."""
    holder = [deepcopy(value)]
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        places = list(_places(holder))
        at, key = random.choice(places)
        what = random.randrange(6)
        if what == 1 and at is not holder:
            del at[key]
        elif what == 2:
            at[key] = [deepcopy(at[key]) for _ in range(random.choice((1, 2)))]
        elif what == 3 and isinstance(at, list) and at is not holder:
            at[key:key] = [deepcopy(at[key]) for _ in range(random.choice((1, 1, 40)))]
        elif what == 4:
            other, from_key = random.choice(places)
            at[key] = deepcopy(other[from_key])
        elif what == 5 and isinstance(at, dict):
            at[random.choice(_KEYS)] = deepcopy(at[key])
        else:
            at[key] = deepcopy(random.choice(others))
    return holder[0]


_KEYS = [
    "op",
    "args",
    "property",
    "type",
    "coordinates",
    "timestamp",
    "date",
    "interval",
    "bbox",
    "",
    "x",
    "id",
    "kind",
]


def _places(holder):
    stack = [holder]
    while stack:
        at = stack.pop()
        for key in at if isinstance(at, dict) else range(len(at)):
            yield at, key
            if isinstance(at[key], dict | list):
                stack.append(at[key])
