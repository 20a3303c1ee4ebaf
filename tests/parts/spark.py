"""One Spark session for all tests of a process; with ``--dist loadgroup`` for all tests there are."""

from __future__ import annotations

import pytest

__all__ = ["pytest_collection_modifyitems", "spark"]


def pytest_collection_modifyitems(items):
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark():
    from tidegate.pipeline.session import session

    found = session()
    yield found
    found.stop()
