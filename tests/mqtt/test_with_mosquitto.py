"""A broker bridged to a real Mosquitto: foreign clients on both sides, and everybody stopped and killed meanwhile."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
import subprocess
import time

import aiomqtt
import httpx
import psutil
import pytest

from tests.gateway.served import Broker, served
from tests.mqtt.bridged import bridging, counted, looped
from tests.mqtt.foreign_clients import Device, Reader, until
from tests.parts.machine import program
from tests.parts.mosquitto import mosquitto, mosquitto_server
from tidegate.mqtt.packet_properties import Property
from tidegate.mqtt.wire_fields import is_plain
from tidegate.store.log_rows import LogRows

__all__ = ["mosquitto"]

pytestmark = pytest.mark.services


def bridged(tmp_path, server, text=""):
    return served(tmp_path, text=f'[serve]\n[mqtt]\naddress = "{server.url}"\n{text}')


def asked(broker):
    return httpx.Client(base_url=broker.url, headers=broker.headers, timeout=60)


def subscribed(client, where="TRUE", id="s", **more):
    answer = client.put(f"/v1/subscriptions/{id}", json={"where": where, "deliver": "mqtt", **more})
    assert answer.status_code == 201, answer.text


def is_connected(client):
    return client.get("/v1/status").json()["mqtt"]["connected"]


def queue(client):
    queues = client.get("/v1/sessions/admin").json()["queues"]
    return next(one for one in queues if one["destination"] == "mqtt")


def rows(client):
    """How many publications were taken; what was counted by a process that is killed may be a second behind."""
    return client.get("/v1/status").json()["log"]["rows"]


def counts(client):
    return client.get("/v1/status").json()["counts"]


def test_commands_and_clients_of_others_publish_and_are_told(tmp_path, mosquitto):
    publish, listen = (program(name, "mosquitto-clients") for name in ("mosquitto_pub", "mosquitto_sub"))
    rule = '[[mqtt.rules]]\ntopic = "sensors/{area}/{source}/no2"\nvalue = "no2"\n'
    rule += '[[mqtt.rules]]\ntopic = "sensors/#"\n'  # of what comes by both the first counts
    with bridged(tmp_path, mosquitto, rule) as broker, asked(broker) as client:
        subscribed(client, "no2 > 40 OR temperature > 20")
        until(lambda: is_connected(client))
        at = ["-h", "127.0.0.1", "-p", str(mosquitto.port), "-V", "5", "-q", "1"]
        command = [listen, *at, "-t", "tidegate/notifications/admin", "-C", "3", "-W", "60", "-F", "%E|%P|%p"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as listening:
            until(lambda: "tidegate/notifications/admin" in mosquitto.log())
            more = ["-D", "PUBLISH", "message-expiry-interval", "600"]
            subprocess.run([publish, *at, "-t", "sensors/north/z7/no2", "-m", "41.5", *more], check=True)
            event = ["-D", "PUBLISH", "content-type", "application/json"]
            for name, value in {"specversion": "1.0", "id": "e1", "source": "roof", "type": "reading"}.items():
                event += ["-D", "PUBLISH", "user-property", name, value]
            topic = "tidegate/publications/roof"
            subprocess.run([publish, *at, "-t", topic, "-m", '{"temperature": 21}', *event], check=True)

            async def other():
                async with aiomqtt.Client("127.0.0.1", mosquitto.port) as one:  # MQTT 3.1.1, without properties
                    await one.publish("tidegate/publications/z9", '{"no2": 50, "id": "x"}', qos=1)

            asyncio.run(other())
            out, _ = listening.communicate(timeout=60)
        lines = [line.split("|", 2) for line in out.splitlines()]
        items = {item["publication"]["source"]: item for item in (json.loads(line[2]) for line in lines)}
        assert items["z7"]["publication"]["attributes"] == {"no2": 41.5, "area": "north"}
        assert items["roof"]["publication"]["attributes"] == {"temperature": 21, "type": "reading"}
        assert items["z9"]["publication"]["id"] == "x"
        assert sorted(item["number"] for item in items.values()) == [1, 2, 3]
        [event] = [line[1] for line in lines if "roof" in line[2]]
        assert {"specversion:1.0", "id:e1", "source:roof", "type:reading"} <= set(event.split())
        [expiry] = [line[0] for line in lines if "z7" in line[2]]
        assert 500 < int(expiry) <= 600
        until(lambda: queue(client)["acknowledged"] == 3)
        assert "tidegate_mqtt_connected 1.0" in client.get("/metrics").text
        # the bridge shares its counts once a second
        until(lambda: 'tidegate_gateway_mqtt_received_total{cause="taken"} 3.0' in client.get("/metrics").text)


@looped
async def test_what_was_retained_before_the_bridge_came_is_taken_once(tmp_path, mosquitto):
    with Device(mosquitto.port, "door") as door:
        door.client.publish("tidegate/publications/door", '{"open": true}', 1, retain=True).wait_for_publish(30)
    text = f'[mqtt]\naddress = "{mosquitto.url}"\nretained_seconds = 3600\nsession_seconds = 0'
    for _ in range(2):  # each time with a session of its own
        async with bridging(tmp_path, text) as (broker, _), asyncio.timeout(30):
            while counted(broker, "mqtt_received") != {"taken": 1}:
                await asyncio.sleep(0.02)
            with LogRows(broker.data.log) as rows:
                [found] = rows.publications(range(broker.log.begin, broker.log.end))
    assert found["id"].startswith("retained-")
    assert "valid_until" in found


def check_restarts(tmp_path, server, restarts, kill_bridge=True, each=150):
    """Everybody is stopped or killed in turn, under load: what the MQTT broker acknowledged to devices is published
    once, and each number is told.
    """
    with bridged(tmp_path, server) as broker, asked(broker) as client:
        subscribed(client)
        until(lambda: is_connected(client))
        names = [f"d{n}" for n in range(3)]
        with Reader(server.port, "reader", "tidegate/notifications/admin") as reader:
            devices = [Device(server.port, name) for name in names]
            sent, count = [], 0
            for turn in range(restarts):
                for number in range(each):
                    for name, device in zip(names, devices, strict=True):
                        item = {"id": f"{turn}-{number}", "n": count}
                        device.publish(f"tidegate/publications/{name}", item)
                        sent.append((name, item["id"]))
                        count += 1
                    if number == each // 2 and turn % 2 == 0:
                        server.stop(signal.SIGTERM)
                        time.sleep(0.3)
                        server.start()
                    elif number == each // 2 and kill_bridge:
                        psutil.Process(broker.processes["mqtt bridge"]).kill()
            for device in devices:
                until(device.is_acknowledged, 120)
            until(lambda: rows(client) >= len(sent), 120)
            until(lambda: len(reader.numbers()) >= len(sent), 120)
            assert rows(client) == len(sent)
            assert sorted(reader.numbers()) == list(range(1, len(sent) + 1))
            by_number = {}
            for item in reader.items():
                one = item["publication"]["source"], item["publication"]["id"]
                assert by_number.setdefault(item["number"], one) == one
            assert sorted(by_number.values()) == sorted(sent)
            for device in devices:
                device.__exit__()
        until(lambda: queue(client)["depth"] == 0)


def test_restarts_of_mosquitto_and_kills_of_the_bridge_lose_nothing(tmp_path, mosquitto):
    check_restarts(tmp_path, mosquitto, 3)


@pytest.mark.thorough
def test_many_restarts_of_mosquitto_and_kills_of_the_bridge_lose_nothing(tmp_path, mosquitto):
    check_restarts(tmp_path, mosquitto, 20, each=400)


def check_kills(tmp_path, server, kills):
    """Mosquitto is killed with what it has saved, which the bridge, stopped meanwhile, has not seen: nothing of it is
    lost, and what comes twice is taken once.
    """
    with bridged(tmp_path, server) as broker, asked(broker) as client:
        until(lambda: is_connected(client))
        with Device(server.port, "device") as device:
            for turn in range(kills):
                bridge = psutil.Process(broker.processes["mqtt bridge"])
                bridge.suspend()
                for number in range(200):
                    device.publish("tidegate/publications/d", {"id": f"{turn}-{number}"})
                until(device.is_acknowledged)
                server.save()
                server.stop(signal.SIGKILL)
                bridge.resume()
                time.sleep(0.2)
                server.start()
                until(lambda: rows(client) == 200 * (turn + 1), 120)  # noqa: B023  (it is called at once)
                until(lambda: is_connected(client))
                until(device.client.is_connected)


def test_kills_of_mosquitto_lose_nothing_that_it_has_saved(tmp_path, mosquitto):
    check_kills(tmp_path, mosquitto, 3)


@pytest.mark.thorough
def test_ten_kills_of_mosquitto_lose_nothing_that_it_has_saved(tmp_path, mosquitto):
    check_kills(tmp_path, mosquitto, 10)


async def connected(tmp_path, server, text):
    """Have a bridge connect in this process; why it could not, "" if it could."""
    async with bridging(tmp_path, f'[mqtt]\naddress = "{server.url}"\n{text}') as (_, bridge):
        while not bridge.is_connected and not bridge._problem:
            await asyncio.sleep(0.02)
        return bridge._problem


@looped
async def test_a_password_is_needed_and_appears_nowhere(tmp_path, caplog):
    tool, file = program("mosquitto_passwd", "mosquitto"), tmp_path / "passwords"
    subprocess.run([tool, "-c", "-b", file, "bridge", "a-secret-of-ours"], check=True, capture_output=True)
    settings = "allow_anonymous false\npassword_file {place}/passwords\n"
    with mosquitto_server(settings, {"passwords": file.read_bytes()}) as server:
        user = 'username = "bridge"\npassword = '
        assert await connected(tmp_path, server, f'{user}"a-secret-of-ours"') == ""
        problem = await connected(tmp_path, server, f'{user}"another-one"')
        assert "NOT_AUTHORIZED" in problem
        assert not {"a-secret-of-ours", "another-one"} & {*re.findall(r"[\w-]+", caplog.text + problem)}


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")
@looped
async def test_certificates_of_both_sides_are_looked_at(tmp_path):
    for name in ("one", "other"):
        command = f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name} "
        command += f"-addext subjectAltName=IP:127.0.0.1 -keyout {name}.key -out {name}.pem"
        subprocess.run(command.split(), check=True, capture_output=True, cwd=tmp_path)
    files = {name: (tmp_path / name).read_bytes() for name in ("one.pem", "one.key", "other.pem")}
    settings = "certfile {place}/one.pem\nkeyfile {place}/one.key\ncafile {place}/other.pem\nrequire_certificate true\n"
    with mosquitto_server(settings, files) as server:
        server.url = server.url.replace("mqtt:", "mqtts:")
        ours = 'certificate = "other.pem"\nprivate_key = "other.key"'
        assert await connected(tmp_path, server, f'ca = "one.pem"\n{ours}') == ""
        assert "certificate" in (await connected(tmp_path, server, f'ca = "other.pem"\n{ours}')).lower()
        assert await connected(tmp_path, server, 'ca = "one.pem"') != ""


def test_a_broker_that_stops_says_so_within_its_five_seconds_and_one_that_cannot_be_meant_does_not_start(tmp_path):
    with mosquitto_server() as server:
        with Reader(server.port, "watcher", "tidegate/status") as watcher:
            with bridged(tmp_path, server) as broker:
                until(lambda: [one.payload for one in watcher.messages] == [b"online"])
                log = broker.processes.log
            until(lambda: [one.payload for one in watcher.messages] == [b"online", b"offline"])
            assert "killed" not in log.read_text()
        (tmp_path / "wrong").mkdir()
        text = f'[mqtt]\naddress = "{server.url}"\npassword_file = "none"'
        broker = Broker(tmp_path / "wrong", "--runner", "process", text=text)
        try:
            assert broker.started.wait(60) == 2
            assert "expected a file with a password" in broker.log.read_text()
        finally:
            broker.end()


@looped
async def test_what_was_queued_before_the_rules_were_changed_is_taken_by_the_new_ones(tmp_path, mosquitto):
    text = f'[mqtt]\naddress = "{mosquitto.url}"\n'
    narrow, wide = '[[mqtt.rules]]\ntopic = "a/{source}"\n', '[[mqtt.rules]]\ntopic = "a/#"\n'

    async def taken(rules, count):
        """Have a bridge with such rules take so many messages."""
        async with bridging(tmp_path, text + rules) as (broker, bridge), asyncio.timeout(30):
            found = bridge._subscriptions
            while not found._fetched == found._known == set(found.topic_filters):
                await asyncio.sleep(0.02)
            while counted(broker, "mqtt_received").get("taken", 0) < count:
                await asyncio.sleep(0.02)
            return counted(broker, "mqtt_received")

    with Device(mosquitto.port, "device") as device:
        assert await taken(wide, 0) == {}
        device.publish("a/x", '{"id": "1"}')
        device.publish("a/y", '{"id": "2"}')
        until(device.is_acknowledged)
        assert await taken(narrow + wide, 2) == {"taken": 2}  # their copies are those of a rule that does not count
        device.publish("a/x", '{"id": "3"}')
        until(device.is_acknowledged)
        await taken(narrow, 1)
        device.publish("a/x/y", '{"id": "4"}')
        device.publish("a/x", '{"id": "5"}')
        until(device.is_acknowledged)
        assert "topic" not in await taken(narrow, 1)


@looped
async def test_no_value_of_a_publication_has_mosquitto_close_the_connection(tmp_path, mosquitto):
    async with bridging(tmp_path, f'[mqtt]\naddress = "{mosquitto.url}"') as (_, bridge), asyncio.timeout(30):
        while not bridge.is_connected:
            await asyncio.sleep(0.02)
        connection, properties = bridge._connection, Property.USER
        told = [chr(code) for code in (*range(0x20, 0x7F), 0xA0, 0xFDCF, 0xFDF0, 0xFFFD, 0x1FFFD, 0x10FFFD)]
        assert all(map(is_plain, told))
        for one in told:
            bridge._outgoing.publish("tidegate/responses/x", b"{}", {properties: [("subject", one)]})
        bridge._outgoing.publish("tidegate/responses/x", b"{}", {properties: [("subject", "end")]})
        while bridge._outgoing._others or bridge._outgoing.in_flight:
            await asyncio.sleep(0.02)
        assert not connection.is_lost
