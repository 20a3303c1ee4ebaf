"""A client that does not wait long before it tries again."""

from __future__ import annotations

import pytest

from tests.client.served_broker import broker, token_of

__all__ = ["broker", "token_of"]


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr("tidegate.client.backoff._FIRST", 0.001)
    monkeypatch.setattr("tidegate.client.backoff._MOST", 0.01)
