"""How everything is refused: one error of the catalogue, which says what was expected and what it got."""

from __future__ import annotations

import re

import pytest

from tidegate.errors import TidegateError


def assert_refused(act, error, *parts):
    """The call raises that very error with these parts in its message, which is no longer than people read."""
    with pytest.raises(TidegateError) as caught:
        act()
    assert type(caught.value) is error, repr(caught.value)
    message = str(caught.value)
    assert re.match(r"expected .+; got .+", message, re.DOTALL)
    assert len(message) < 2000
    for part in parts:
        assert part in message
