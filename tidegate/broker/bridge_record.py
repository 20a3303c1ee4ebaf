"""What the bridge to an MQTT broker writes down of itself, in ``DIR/run/mqtt.json``, so that gateways can show it."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from tidegate import checked_json
from tidegate.store.data_directory import DataDirectory

__all__ = ["BRIDGE", "BridgeRecord"]

#: The name of the process.
BRIDGE = "mqtt bridge"
_NAME, _FORMAT = "mqtt.json", 1


@dataclass(frozen=True)
class BridgeRecord:
    """A bridge: its process, the MQTT broker, whether it is connected, since when it is or is not (µs since 1970), why
    the last connection was lost or none could be made, and how many messages are on their way, not acknowledged yet.
    """

    process: int
    address: str
    client_id: str
    is_connected: bool
    since: int
    problem: str
    receiving: int
    sending: int
    queues: int

    def write(self, data: DataDirectory) -> None:
        """Put it in place of what is there. A full disk keeps nobody from running: what is there then stays."""
        aside = data.run / f".{_NAME}"
        with suppress(OSError):
            aside.write_bytes(checked_json.packed({"format": _FORMAT, **asdict(self)}))
            os.replace(aside, data.run / _NAME)

    @staticmethod
    def read(data: DataDirectory) -> BridgeRecord | None:
        """What the last bridge of a data directory wrote; None if there was none, or if it cannot be read."""
        try:
            facts: dict[str, Any] = checked_json.unpacked((data.run / _NAME).read_bytes())
            if facts.pop("format") != _FORMAT:
                return None
            return BridgeRecord(**facts)
        except (OSError, ValueError, KeyError, TypeError):
            return None
