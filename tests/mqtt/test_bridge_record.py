"""What a bridge writes of itself is read back, and nothing that was damaged is believed."""

from __future__ import annotations

from tidegate.broker.bridge_record import BridgeRecord
from tidegate.store.data_directory import DataDirectory

RECORD = BridgeRecord(7, "mqtt://b:1883", "me", True, 1_800_000_000_000_000, "", 3, 4, 5)


def test_a_record_comes_back_and_a_damaged_one_does_not(tmp_path):
    data = DataDirectory.made(tmp_path / "data", "process")
    data.run.mkdir(exist_ok=True)
    assert BridgeRecord.read(data) is None
    RECORD.write(data)
    assert BridgeRecord.read(data) == RECORD
    [file] = data.run.glob("*.json")
    content = file.read_bytes()
    for place in range(len(content)):
        for bit in range(8):
            file.write_bytes(content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :])
            assert BridgeRecord.read(data) in (None, RECORD)  # a letter of the checksum's own name may be another
    file.write_bytes(content[: len(content) // 2])
    assert BridgeRecord.read(data) is None
