"""The identity of publications, events and notifications, as hashes of 128 bits in two halves.

A publication is known by its source, its id and its phase, an event by its source and id, a notification by its
subscription, its publications and its time. ``docs/LANGUAGE.md`` defines the ids of notifications that follow from
these; whoever changes a hash here changes them for everybody, and raises ``SEMANTICS`` in ``runs/checkpoint.py``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidegate.kernels.compiled import njit
from tidegate.kernels.encode import mixed

__all__ = [
    "digests", "event_hashes", "notification_ids", "notification_ids_of_one", "publication_hashes",
    "publication_hashes_of_one", "text_hashes",
]  # fmt: skip


@njit(cache=True, nogil=True)
def _text_hash(begin: int, end: int, letters: NDArray[np.uint8]) -> tuple[np.uint64, np.uint64]:
    one, two = np.uint64(0xCBF29CE484222325), np.uint64(0x9AE16A3B2F90404F)
    for k in range(begin, end):
        one = (one ^ np.uint64(letters[k])) * np.uint64(0x100000001B3)
        two = (two + np.uint64(letters[k])) * np.uint64(0xC6A4A7935BD1E995)
        two ^= two >> np.uint64(29)
    return mixed(one), mixed(two)


@njit(cache=True, nogil=True)
def text_hashes(offsets: NDArray[np.int64], letters: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """128 bits per text."""
    result = np.empty((len(offsets) - 1, 2), np.uint64)
    for i in range(len(result)):
        result[i, 0], result[i, 1] = _text_hash(offsets[i], offsets[i + 1], letters)
    return result


@njit(cache=True, nogil=True)
def _joined(id: np.uint64, source: np.uint64, phase: int) -> np.uint64:
    """One half of the hash of a publication, from that half of the hashes of its id and of its source."""
    half: np.uint64 = mixed(id + mixed(source + np.uint64(phase)))
    return half


@njit(cache=True, nogil=True)
def publication_hashes(
    rows: NDArray[np.int64],
    id_offsets: NDArray[np.int64],
    id_letters: NDArray[np.uint8],
    source_offsets: NDArray[np.int64],
    source_letters: NDArray[np.uint8],
    phases: NDArray[np.uint8],
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """128 bits per publication of some rows, and 128 bits of the source of each."""
    publications, sources = np.empty((len(rows), 2), np.uint64), np.empty((len(rows), 2), np.uint64)
    for i in range(len(rows)):
        row = rows[i]
        one, two = _text_hash(id_offsets[row], id_offsets[row + 1], id_letters)
        sources[i, 0], sources[i, 1] = _text_hash(source_offsets[row], source_offsets[row + 1], source_letters)
        publications[i, 0] = _joined(one, sources[i, 0], phases[row])
        publications[i, 1] = _joined(two, sources[i, 1], phases[row])
    return publications, sources


@njit(cache=True, nogil=True)
def publication_hashes_of_one(id: NDArray[np.uint8], source: NDArray[np.uint8], phase: int) -> NDArray[np.uint64]:
    """A row with 128 bits of one publication, and one with those of its source."""
    result = np.empty((2, 2), np.uint64)
    one, two = _text_hash(0, len(id), id)
    result[1, 0], result[1, 1] = _text_hash(0, len(source), source)
    result[0, 0], result[0, 1] = _joined(one, result[1, 0], phase), _joined(two, result[1, 1], phase)
    return result


@njit(cache=True, nogil=True)
def event_hashes(
    id_offsets: NDArray[np.int64], id_letters: NDArray[np.uint8], sources: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """128 bits of the event of each publication, of whichever phase: that of the publication without a phase."""
    result = np.empty((len(id_offsets) - 1, 2), np.uint64)
    for i in range(len(result)):
        one, two = _text_hash(id_offsets[i], id_offsets[i + 1], id_letters)
        result[i, 0], result[i, 1] = _joined(one, sources[i, 0], 0), _joined(two, sources[i, 1], 0)
    return result


@njit(cache=True, nogil=True)
def digests(start: NDArray[np.int64], items: NDArray[np.int64], hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """128 bits per list of publications, from the hashes of its publications in order."""
    result = np.empty((len(start) - 1, 2), np.uint64)
    for i in range(len(result)):
        for half in range(2):
            word = np.uint64(start[i + 1] - start[i])
            for j in range(start[i], start[i + 1]):
                word = mixed(word + mixed(hashes[items[j], half]))
            result[i, half] = word
    return result


@njit(cache=True, nogil=True)
def _write_id(
    digits: NDArray[np.uint8], subscription: NDArray[np.uint64], one: np.uint64, two: np.uint64, when: np.uint64
) -> None:
    """32 hexadecimal digits of a notification: of a subscription, of the two halves of a publication, and of a time."""
    for half in range(2):
        word = mixed(subscription[half] + mixed((two if half else one) ^ when))
        for d in range(16):
            nibble = (word >> np.uint64(60 - 4 * d)) & np.uint64(15)
            digits[16 * half + d] = nibble + (48 if nibble < 10 else 87)


@njit(cache=True, nogil=True)
def notification_ids(
    start: NDArray[np.int64],
    subscription: NDArray[np.uint64],
    publication: NDArray[np.uint64],
    time: NDArray[np.int64],
) -> NDArray[np.uint8]:
    """32 hexadecimal digits per notification, from the hashes of its subscription and publication and the time.

    Rows as in ``owners_of_hits``: the notifications of publication p are start[p] … start[p + 1].
    """
    digits = np.empty((len(subscription), 32), np.uint8)
    for p in range(len(start) - 1):
        for i in range(start[p], start[p + 1]):
            _write_id(digits[i], subscription[i], publication[p, 0], publication[p, 1], mixed(np.uint64(time[p])))
    return digits


@njit(cache=True)
def notification_ids_of_one(
    letters: NDArray[np.uint8],
    id_size: int,
    phase: int,
    time: int,
    owners: NDArray[np.int32],
    hashes: NDArray[np.uint64],
) -> NDArray[np.uint8]:
    """``notification_ids`` of one publication and the owners it matched, with the hashes of all owners.

    ``letters`` are those of its id, which has so many bytes, and of its source.
    """
    one, two = _text_hash(0, id_size, letters)
    first, second = _text_hash(id_size, len(letters), letters)
    one, two = _joined(one, first, phase), _joined(two, second, phase)
    digits = np.empty((len(owners), 32), np.uint8)
    for i in range(len(owners)):
        _write_id(digits[i], hashes[owners[i]], one, two, mixed(np.uint64(time)))
    return digits
