"""JSON objects with checksums: what was changed is refused, also when it is the checksum's own name."""

from __future__ import annotations

import orjson
import pytest

from tidegate import checked_json

FACTS = {"format": 2, "name": "Žabnica", "layers": [[1, 2], []]}


def test_what_was_packed_is_unpacked():
    assert checked_json.unpacked(checked_json.packed(FACTS)) == FACTS


def test_white_space_is_no_damage():
    spaced = orjson.dumps(orjson.loads(checked_json.packed(FACTS)), option=orjson.OPT_INDENT_2)
    assert checked_json.unpacked(spaced) == FACTS


def test_every_flipped_bit_is_refused():
    data = checked_json.packed(FACTS)
    for place in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        with pytest.raises(ValueError, match=r"checksum|JSON|line"):
            checked_json.unpacked(bytes(flipped), checked_from=2)


@pytest.mark.parametrize("facts", [{}, {"format": 2}, {"format": "old"}, [], {"format": 1, "crc32": 5}])
def test_nothing_without_a_checksum_is_taken_unless_its_format_had_none(facts):
    with pytest.raises(ValueError, match=r"checksum|JSON|line"):
        checked_json.unpacked(orjson.dumps(facts))
    if facts != {}:
        with pytest.raises(ValueError, match=r"checksum|JSON|line"):
            checked_json.unpacked(orjson.dumps(facts), checked_from=2)


@pytest.mark.parametrize("facts", [{"format": 1, "name": "north"}, {"name": "north"}])
def test_a_format_of_before_is_taken_without_a_checksum(facts):
    assert checked_json.unpacked(orjson.dumps(facts), checked_from=2) == facts
