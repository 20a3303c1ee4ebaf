"""The page about MQTT is run from top to bottom, beside a broker and a Mosquitto that are as it says."""

from __future__ import annotations

import httpx
import pytest

from tests.gateway.served import served
from tests.mqtt.foreign_clients import until
from tests.parts.machine import program
from tests.parts.mosquitto import mosquitto_server
from tests.test_doc_pages import ADDRESS, BROKER_TOKEN, MQTT_PAGE, run_page
from tests.test_docs import blocks

pytestmark = pytest.mark.services


def test_the_page_runs_beside_a_broker_and_a_mosquitto(tmp_path, monkeypatch, capsys):
    for name in ("mosquitto_pub", "mosquitto_sub", "mosquitto_rr"):
        program(name, "mosquitto-clients")
    monkeypatch.chdir(tmp_path)
    text = MQTT_PAGE.read_text("utf-8")
    [settings], [service] = blocks(text, "text"), blocks(text, "toml")
    more = "".join(line + "\n" for line in settings.splitlines() if line.startswith("allow"))
    with mosquitto_server(more) as server:
        port = str(server.port)
        with served(tmp_path, text=service.replace("1883", port), token=BROKER_TOKEN) as broker:
            status = f"{broker.url}/v1/status"
            until(lambda: httpx.get(status, headers=broker.headers).json()["mqtt"]["connected"])
            page = tmp_path / "page.md"
            page.write_text(text.replace("1883", port), "utf-8")
            assert ADDRESS in text
            run_page(page, capsys, broker.url)
