"""Each test of a database runs on all three."""

from __future__ import annotations

import pytest

from tests.parts.databases import DATABASES
from tests.parts.mariadb import mariadb
from tests.parts.postgres import postgres

__all__ = ["mariadb", "postgres"]


@pytest.fixture(params=DATABASES)
def url(request, tmp_path):
    """The address of a new, empty database."""
    if request.param == "sqlite":
        return str(tmp_path / "some.db")
    return request.getfixturevalue({"postgresql": "postgres", "mariadb": "mariadb"}[request.param])()
