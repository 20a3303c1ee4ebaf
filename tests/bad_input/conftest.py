"""An engine that bad input must leave as it was."""

from __future__ import annotations

import pytest

import tidegate as tg


@pytest.fixture
def engine():
    return tg.Engine([tg.Subscription("old", "ann", "no2 > 40"), tg.Subscription("any", "bob", "TRUE")])
