"""No flipped bit of a log or a snapshot is believed, and none ends a process."""

from __future__ import annotations

import pytest

from tests.flips.kinds import KINDS
from tests.flips.run import flipped


@pytest.mark.parametrize("count", [120, pytest.param(20_000, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_is_refused_or_has_no_effect(kind, count):
    found, wrong = flipped(kind, 0, count)
    assert wrong == []
    assert sum(found.values()) == count
    assert found["refused"] > count // 20
