"""Ontologies written by a test, and gone after it."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidegate as tg
from tests.ontologies.statements import HEAD, E
from tidegate.ontologies import current


@pytest.fixture(autouse=True)
def _as_before():
    """Whatever a test loads is gone after it."""
    with current.use(current.get()):
        yield


@pytest.fixture
def write(tmp_path):
    """A Turtle file of these statements."""
    count = iter(range(1_000_000))

    def written(text: str) -> Path:
        path = tmp_path / f"o{next(count)}.ttl"
        path.write_text(HEAD + text)
        return path

    return written


@pytest.fixture
def load(write):
    """Load these statements as the current ontology, with the prefix e."""
    return lambda text: tg.load_ontology(write(text), prefixes={"e": E})
