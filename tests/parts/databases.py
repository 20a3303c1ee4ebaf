"""The databases that a test runs on: SQLite everywhere, PostgreSQL and MariaDB where servers may be started.

A test that runs on all of them is part of the services only if it is marked as a contract; all others meet the servers
in ``make thorough`` (``tests/conftest.py``).
"""

from __future__ import annotations

import pytest

__all__ = ["DATABASES", "SERVERS"]

DATABASES = ["sqlite", *(pytest.param(name, marks=pytest.mark.services) for name in ("postgresql", "mariadb"))]
#: The fixtures of the two servers, by name.
SERVERS = [pytest.param(name, marks=pytest.mark.services) for name in ("postgres", "mariadb")]
