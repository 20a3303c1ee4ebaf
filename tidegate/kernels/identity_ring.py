"""The id index: a ring of identities in the order in which they came, and an open hash table of places in the ring.

All of it is one array of words, which ``store/identities.py`` maps from a file: a head, the ring with four words for
each identity, and the table. The two halves of the hash come first, then the row with two marks, then until when the
identity counts, in µs since 1970. An entry of the table has 32 bits of the hash and the place in the ring, from 1 on.

When the ring is full its oldest entry goes: unless something newer has replaced it, one that still counts is forgotten,
or, if it counts for longer than the others because its publication is valid, put in again as the newest. Sums over head
and body say whether a file is as it was written. Nothing here knows files, logs or what hashes are of.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.compiled import njit
from tidegate.kernels.encode import mixed
from tidegate.kernels.keyed_hash import keyed_hash

__all__ = [
    "APPENDED",
    "CHECK",
    "END_BYTE",
    "FIRST",
    "FORGOTTEN",
    "HEAD",
    "KEY",
    "LONG",
    "ROW",
    "SIZE",
    "SLOTS",
    "STATE",
    "SUM",
    "TAIL",
    "WITHDRAWN",
    "WORDS",
    "check_of",
    "found_row",
    "found_rows",
    "move_all",
    "put_all",
    "seal",
    "sum_of",
    "withdraw_all",
]  # fmt: skip

#: Words of the head: entries of the ring and of the table; how many entries have left the ring and come to it; up to
#: which row of the log it goes, with byte and time of the entry of the log that ends there; the sum of the body; how
#: many identities were forgotten although they counted; the key of the hashes, in two words. Words 0 and 12 to 15 are
#: the caller's.
SIZE, SLOTS, HEAD, TAIL, ROW, END_BYTE, APPENDED, SUM, FORGOTTEN, KEY = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
#: 0 if nobody was stopped while changing the body; the sum of the head without both.
STATE, CHECK = 16, 17
#: Where the ring begins, and words of an entry in it.
FIRST, WORDS = 64, 4
#: Marks of an entry, below the bits of its row: it counts for longer than the horizon; it was withdrawn.
LONG, WITHDRAWN = 1, 2
_MARKS = 2
#: Entries that are put in again for one that comes, at most: it must not take long.
_MOST_MOVED = 8

_jit = njit(cache=True, nogil=True)
_Words = NDArray[np.uint64]


@_jit
def check_of(file: _Words) -> int:
    """The sum of the head."""
    total = np.uint64(0)
    for at in range(STATE):
        total += mixed(file[at] + mixed(np.uint64(at + 1)))
    return int(total >> np.uint64(1))


@_jit
def seal(file: _Words, row: int, byte: int, appended: int) -> None:
    """Note up to where in the log the file goes, and the sum of the head."""
    file[ROW], file[END_BYTE], file[APPENDED] = row, byte, appended
    file[CHECK] = check_of(file)


@_jit
def _weight(at: int, word: Any) -> Any:
    """What a word of the body adds to the sum; nothing if it is 0, as all are at first."""
    return mixed(word + mixed(np.uint64(at))) if word else np.uint64(0)


@_jit
def sum_of(file: _Words) -> Any:
    """The sum of the body, as a signed number."""
    total = np.uint64(0)
    for at in range(FIRST, len(file)):
        total += _weight(at, file[at])
    return np.int64(total)


@_jit
def _put(file: _Words, at: int, word: Any) -> None:
    file[SUM] += _weight(at, word) - _weight(at, file[at])
    file[at] = word


@_jit
def _slot(file: _Words, one: Any, two: Any) -> tuple[Any, Any]:
    """Where the entry of a hash is in the table, or would be, and where it is in the ring; −1 if there is none."""
    size, slots = np.int64(file[SIZE]), np.int64(file[SLOTS])
    begin, mask, tag = FIRST + WORDS * size, slots - 1, one & np.uint64(0xFFFFFFFF)
    i = np.int64(tag) & mask
    while True:
        word = file[begin + i]
        if word == 0:
            return begin + i, -1
        if word >> np.uint64(32) == tag:
            at = FIRST + WORDS * (np.int64(word & np.uint64(0xFFFFFFFF)) - 1)
            if file[at] == one and file[at + 1] == two:
                return begin + i, at
        i = (i + 1) & mask


@_jit
def _remove(file: _Words, slot: int) -> None:
    """Take an entry out of the table, and close the gap."""
    begin = FIRST + WORDS * np.int64(file[SIZE])
    mask = np.int64(file[SLOTS]) - 1
    i = slot - begin
    j = i
    while True:
        j = (j + 1) & mask
        word = file[begin + j]
        if word == 0:
            break
        home = np.int64(word >> np.uint64(32)) & mask
        if (j - home) & mask >= (j - i) & mask:  # it may stand at i
            _put(file, begin + i, word)
            i = j
    _put(file, begin + i, np.uint64(0))


@_jit
def _add(file: _Words, slot: int, one: Any, two: Any, row: Any, until: Any) -> None:
    """Put an entry behind the newest and into a slot of the table."""
    place = np.int64(file[TAIL] % file[SIZE])
    at = FIRST + WORDS * place
    _put(file, at, one)
    _put(file, at + 1, two)
    _put(file, at + 2, row)
    _put(file, at + 3, until)
    _put(file, slot, ((one & np.uint64(0xFFFFFFFF)) << np.uint64(32)) | np.uint64(place + 1))
    file[TAIL] += np.uint64(1)


@_jit
def _has_room(file: _Words, now: int, may_forget: bool) -> bool:
    """Make room for one entry; false if an entry that counts stands in the way and may not be forgotten."""
    moved = 0
    while file[TAIL] - file[HEAD] == file[SIZE]:
        at = FIRST + WORDS * np.int64(file[HEAD] % file[SIZE])
        one, two, row, until = file[at], file[at + 1], file[at + 2], file[at + 3]
        slot, here = _slot(file, one, two)
        counts = here == at and np.int64(until) > now
        if counts and not may_forget:
            return False
        if here == at:
            _remove(file, slot)
        file[HEAD] += np.uint64(1)
        if counts and row & np.uint64(LONG) and moved < _MOST_MOVED:
            slot, _ = _slot(file, one, two)
            _add(file, slot, one, two, row, until)
            moved += 1
        elif counts:
            file[FORGOTTEN] += np.uint64(1)
    return True


@_jit
def found_row(file: _Words, now: int, data: bytes, hashes: _Words) -> int:
    """The row that one publication is known by at a time, or −1; its hash is put into ``hashes``."""
    one, two = keyed_hash(file[KEY], file[KEY + 1], data, len(data))
    hashes[0, 0], hashes[0, 1] = one, two
    _, at = _slot(file, one, two)
    if at < 0 or np.int64(file[at + 3]) <= now:
        return -1
    return int(file[at + 2] >> np.uint64(_MARKS))


@_jit
def found_rows(file: _Words, now: int, hashes: _Words, rows: NDArray[np.int64]) -> int:
    """For each hash the row that it is known by at a time, −1 if it is new, or −2 − i if it is new and was given
    before, at place i; and how many are not new. Changes nothing in the file.
    """
    count, found = len(hashes), 0
    slots = 4
    while slots < 2 * count:
        slots *= 2
    given = np.full(slots if count > 1 else 0, -1, np.int64)
    for i in range(count):
        _, at = _slot(file, hashes[i, 0], hashes[i, 1])
        rows[i] = -1
        if at >= 0 and np.int64(file[at + 3]) > now:
            rows[i] = np.int64(file[at + 2] >> np.uint64(_MARKS))
        elif count > 1:
            j = np.int64(hashes[i, 1] & np.uint64(slots - 1))
            while given[j] >= 0:
                first = given[j]
                if hashes[first, 0] == hashes[i, 0] and hashes[first, 1] == hashes[i, 1]:
                    rows[i] = -2 - first
                    break
                j = (j + 1) & (slots - 1)
            else:
                given[j] = i
        found += rows[i] != -1
    return found


@_jit
def put_all(
    file: _Words,
    now: int,
    horizon: int,
    hashes: _Words,
    valid_until: NDArray[np.int64],
    first_row: int,
    end: tuple[int, int, int],
    begin: int,
    may_forget: bool,
) -> int:
    """Know hashes from a place on by consecutive rows, until a horizon has passed or longer, if ``valid_until`` says.

    ``first_row`` is that of the first of all hashes. What is known already keeps its row. Returns the place of the
    first hash for which there is no room, or how many hashes there are; then it is noted that the log ends with the
    entry that ends at this row and byte and is of this time.
    """
    for i in range(begin, len(hashes)):
        one, two = hashes[i, 0], hashes[i, 1]
        slot, at = _slot(file, one, two)
        if at >= 0 and np.int64(file[at + 3]) > now:
            continue
        if not _has_room(file, now, may_forget):
            return i
        slot, _ = _slot(file, one, two)  # making room has moved entries
        until, mark = now + horizon, 0
        if len(valid_until) and valid_until[i] > until:
            until, mark = valid_until[i], LONG
        _add(file, slot, one, two, np.uint64(((first_row + i) << _MARKS) | mark), np.uint64(until))
    seal(file, end[0], end[1], end[2])
    return len(hashes)


@_jit
def withdraw_all(file: _Words, now: int, hashes: _Words, rows: NDArray[np.int64], mark: bool) -> None:
    """For each hash the row that it is known by at a time, −1 if it is not known or was withdrawn; with ``mark`` what
    was found is withdrawn from now on.
    """
    for i in range(len(hashes)):
        _, at = _slot(file, hashes[i, 0], hashes[i, 1])
        rows[i] = -1
        if at >= 0 and np.int64(file[at + 3]) > now and not file[at + 2] & np.uint64(WITHDRAWN):
            rows[i] = np.int64(file[at + 2] >> np.uint64(_MARKS))
            if mark:
                _put(file, at + 2, file[at + 2] | np.uint64(WITHDRAWN))


@_jit
def move_all(file: _Words, now: int, larger: _Words) -> None:
    """Put all that counts at a time into another file that is empty and has room for it, in order."""
    for k in range(file[TAIL] - file[HEAD]):
        at = FIRST + WORDS * np.int64((file[HEAD] + np.uint64(k)) % file[SIZE])
        one, two, until = file[at], file[at + 1], file[at + 3]
        _, here = _slot(file, one, two)
        if here == at and np.int64(until) > now:
            slot, _ = _slot(larger, one, two)
            _add(larger, slot, one, two, file[at + 2], until)
