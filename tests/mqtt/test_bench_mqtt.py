"""The clients of the bench: they publish what they are given, once, at their rate, and hear all there is."""

from __future__ import annotations

from functools import partial

import pytest

from bench.mqtt_load import Listener, publish
from tests.parts.mosquitto import mosquitto

__all__ = ["mosquitto"]

pytestmark = pytest.mark.services


@pytest.mark.parametrize("rate", [None, 2000.0])
def test_all_is_published_once_and_heard(mosquitto, rate):
    with Listener(mosquitto.port, "bench/a") as listener:
        payloads = (partial(b"%d".__mod__, number) for number in range(500))
        assert publish(mosquitto.port, "load", "bench/a", payloads, rate) == 500
        assert [payload for _, payload in listener.messages(500)] == [b"%d" % number for number in range(500)]
