"""A few texts one by one, whole columns, and columns that are cut."""

from __future__ import annotations

import pytest

from tidegate.records import attribute_expansion, columns


@pytest.fixture(params=["as it is", "columns", "cut"])
def cut(request, monkeypatch):
    """As it is, by columns however few the texts are, and with the bounds so low that all of them are met."""
    if request.param != "as it is":
        monkeypatch.setattr(attribute_expansion, "FEW", 0)
    if request.param == "cut":
        monkeypatch.setattr(attribute_expansion, "MOST_TEXTS", 3)
        monkeypatch.setattr(attribute_expansion, "MOST_BYTES", 700)
        monkeypatch.setattr(columns, "SPARSEST", 1)
        monkeypatch.setattr(columns, "KINDS", 2)
