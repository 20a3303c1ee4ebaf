"""One Spark session for all tests of a process."""

from __future__ import annotations

import pytest

__all__ = ["spark"]


@pytest.fixture(scope="session")
def spark():
    from tidegate.pipeline.session import session

    found = session()
    yield found
    found.stop()
