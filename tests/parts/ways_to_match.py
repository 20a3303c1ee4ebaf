"""The ways in which an index matches, each of which a test can have for all publications."""

from __future__ import annotations

import pytest

from tidegate.index import index, small_tables

__all__ = ["way_to_match"]

_ALL = 10**9
_WAYS = {
    "as it comes": {},
    "in batches": {"_FEW": -1, "_SOME": -1},
    "one at a time": {"_FEW": _ALL, "_SOME": -1},
    "as newcomers": {"_FEW": _ALL, "_SOME": _ALL, "_WORTH": _ALL},
}


@pytest.fixture(params=_WAYS)
def way_to_match(request, monkeypatch):
    """All publications together, one after the other, or with a draft that never becomes a segment."""
    for name, value in _WAYS[request.param].items():
        monkeypatch.setattr(index, name, value)
    if request.param == "in batches":
        monkeypatch.setattr(small_tables, "_FEW", -1)  # tables of any length are read column by column
    return request.param
