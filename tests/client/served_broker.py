"""One real broker for all tests of a folder that want one: each has principals of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import tidegate as tg
from tests.gateway.served import Served, served

__all__ = ["broker", "token_of"]


@pytest.fixture(scope="session")
def broker(tmp_path_factory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("broker")) as found:
        yield found


@pytest.fixture
def token_of(broker) -> Iterator[Callable[..., str]]:
    """The secret of a new token of a principal."""
    with tg.connect(broker.url, token=broker.token) as administrator:
        yield lambda principal, *roles, **more: administrator.make_token(principal, roles, **more).secret
