"""Where a sweep writes."""

from __future__ import annotations

import pytest


@pytest.fixture
def diary(tmp_path):
    (tmp_path / "diary").mkdir()
    return tmp_path / "diary"


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"
