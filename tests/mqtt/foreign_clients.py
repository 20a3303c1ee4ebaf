"""Devices and readers that know MQTT and nothing of Tidegate: paho, with sessions that go on over lost connections."""

from __future__ import annotations

import json
import threading
import time

from paho.mqtt.client import Client, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

__all__ = ["Device", "Reader", "until"]


def until(holds, seconds=60.0):
    """What ``holds`` gives as soon as it is anything."""
    due = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < due, f"not within {seconds:g} seconds"
        time.sleep(0.05)
    return found


def _session():
    found = Properties(PacketTypes.CONNECT)
    found.SessionExpiryInterval = 3600
    return found


class _Client:
    def __init__(self, port, name):
        self.client = Client(CallbackAPIVersion.VERSION2, name, protocol=MQTTv5)
        self.client.reconnect_delay_set(1, 1)
        self.client.max_queued_messages_set(0)
        self.client.on_connect = lambda *given: self._connected.set()
        self._connected = threading.Event()
        self.prepare()
        self.client.connect("127.0.0.1", port, clean_start=False, properties=_session())
        self.client.loop_start()
        assert self._connected.wait(30)

    def prepare(self):
        """What is to be done before it connects."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.disconnect()
        self.client.loop_stop()


class Device(_Client):
    """Publishes with QoS 1, again after a lost connection until the MQTT broker has acknowledged."""

    def prepare(self):
        self.sent, self._acknowledged = 0, set()
        self.client.on_publish = lambda client, data, number, *more: self._acknowledged.add(number)

    def is_acknowledged(self):
        """Whether all that was published is."""
        return len(self._acknowledged) == self.sent

    def publish(self, topic, payload, **properties):
        self.sent += 1
        found = Properties(PacketTypes.PUBLISH)
        for name, value in properties.items():
            setattr(found, name, value)
        text = payload if isinstance(payload, str | bytes) else json.dumps(payload)
        self.client.publish(topic, text, 1, properties=found)


class Reader(_Client):
    """Subscribes with QoS 1 to topics; ``messages`` has what came."""

    def __init__(self, port, name, *topics):
        self.messages, self._topics = [], topics
        super().__init__(port, name)
        ready = threading.Event()
        self.client.on_subscribe = lambda *given: ready.set()
        self.client.subscribe([(topic, 1) for topic in topics])
        assert ready.wait(30)

    def prepare(self):
        self.client.on_message = lambda client, data, message: self.messages.append(message)

    def items(self):
        return [json.loads(one.payload) for one in list(self.messages)]

    def numbers(self):
        """The numbers that came, in the order in which they came first."""
        return list(dict.fromkeys(one["number"] for one in self.items()))
