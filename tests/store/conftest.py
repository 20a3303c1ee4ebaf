"""Each test of a database runs on all three; a history in it, and ontologies of wines to know."""

from __future__ import annotations

import pytest

from tests.parts.cellar import PREFIXES, cellar
from tests.parts.databases import DATABASES
from tests.parts.mariadb import mariadb
from tests.parts.postgres import postgres
from tidegate.ontologies.current import load, use
from tidegate.store import History

__all__ = ["mariadb", "postgres"]


@pytest.fixture(params=DATABASES)
def url(request, tmp_path):
    """The address of a new, empty database."""
    if request.param == "sqlite":
        return str(tmp_path / "some.db")
    return request.getfixturevalue({"postgresql": "postgres", "mariadb": "mariadb"}[request.param])()


@pytest.fixture
def history(url):
    with History(url) as history:
        yield history


@pytest.fixture
def know(tmp_path):
    """Load an ontology of some classes and their members."""
    with use(None):
        yield lambda **classes: load(cellar(tmp_path / "cellar.ttl", **classes), prefixes=PREFIXES)
