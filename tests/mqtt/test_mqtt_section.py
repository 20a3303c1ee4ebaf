"""The section ``[mqtt]``: what it says if nothing is said, what cannot be meant, and what is in no text."""

from __future__ import annotations

import re
import ssl

import pytest

from tests.gateway.broker import client_of, opened, token
from tests.mqtt.bridged import looped
from tidegate.errors import SettingError
from tidegate.gateway.problems import RequestError
from tidegate.gateway.webhooks import expect_deliverable
from tidegate.mqtt.credentials import Credentials, check_credentials
from tidegate.runs.config import load

HEAD = '[run]\ndata = "data"\nrunner = "process"\n'


def section(directory, text):
    file = directory / "service.toml"
    file.write_text(f"{HEAD}{text}")
    return load(file).mqtt


def test_without_it_there_is_no_bridge_and_with_an_address_all_else_has_a_default(tmp_path):
    assert section(tmp_path, "") is None
    found = section(tmp_path, '[mqtt]\naddress = "mqtt://broker.example"')
    assert found.address == ("broker.example", 1883, False)
    assert (found.topic("publications"), found.topic("status")) == ("tidegate/publications", "tidegate/status")
    assert section(tmp_path, '[mqtt]\naddress = "mqtts://[::1]"').address == ("::1", 8883, True)
    assert str(section(tmp_path, '[mqtt]\naddress = "mqtts://[::1]"').address) == "mqtts://[::1]:8883"
    found = section(tmp_path, '[mqtt]\naddress = "mqtt://b:5"\nprefix = "a/b/"\nnotifications = "told"')
    assert found.topic("notifications") == "a/b/told"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "expected a key address; got none"),
        ('address = "http://b"', "expected mqtt://host:port or mqtts://host:port; got 'http://b'; at mqtt.address"),
        ('address = "mqtt://u:secret@b"', "username and password as keys of their own; got one with both"),
        ('address = "mqtt://u:secret@b:99999"', "username and password as keys of their own; got one with both"),
        ('address = "mqtt://u:secret@[b"', "username and password as keys of their own; got one with both"),
        ('address = "mqtt://b"\npassword = 12345678', "expected text that is not empty; got another int"),
        ('address = "mqtt://b"\npassword = "secret\\u0000"', "expected text that is not empty; got another str"),
        ('address = "mqtt://b:99999"', "expected mqtt://host:port"),
        ('address = "mqtt://b"\nprefix = "a/#"', "expected a topic without"),
        ('address = "mqtt://b"\npassword = "x"\npassword_file = "y"', "got password and password_file"),
        ('address = "mqtt://b"\nca = "x"', "expected an address with mqtts://"),
        ('address = "mqtts://b"\ncertificate = "x"', "expected certificate and private_key, or neither"),
        ('address = "mqtt://b"\nstatus = "publications/x"', "topics of which none is above another"),
        ('address = "mqtt://b"\nreceive = 70000', "a whole number from 1 to 65535"),
        ('address = "mqtt://b"\nprincipal = "a b"', "expected the name of a principal"),
        ('address = "mqtt://b"\nprincipals = ["a b"]', "at mqtt.principals.0"),
        ('address = "mqtt://b"\n[[mqtt.rules]]\nvalue = "x"', "expected a key topic"),
        ('address = "mqtt://b"\n[[mqtt.rules]]\ntopic = "a/{b}c"', "one name in braces"),
        ('address = "mqtt://b"\n[[mqtt.rules]]\ntopic = "a"\nformat = "xml"', "one of auto, json, number"),
        ('address = "mqtt://b"\n[[mqtt.rules]]\ntopic = "a"\nconstants = {x = []}', "text, a number, true or false"),
        ('address = "mqtt://b"\nrules = 5', "expected sections"),
        ('adress = "mqtt://b"', "did you mean address?"),
    ],
)
def test_what_cannot_be_meant_is_told_with_its_place(tmp_path, text, wrong):
    with pytest.raises(SettingError) as caught:
        section(tmp_path, f"[mqtt]\n{text}")
    assert wrong in str(caught.value)
    assert not {"secret", "12345678"} & {*re.findall(r"\w+", str(caught.value))}


def test_passwords_come_from_the_file_another_file_or_the_environment_and_are_in_no_text(tmp_path, monkeypatch):
    (tmp_path / "password").write_bytes(b"of a file\n")
    monkeypatch.setenv("MQTT_PASSWORD", "of the environment")
    for text, expected in (
        ("", None),
        ('password = "of the section"', b"of the section"),
        ('password_file = "password"', b"of a file"),
        ('password_variable = "MQTT_PASSWORD"', b"of the environment"),
    ):
        found = section(tmp_path, f'[mqtt]\naddress = "mqtt://b"\n{text}')
        assert Credentials(found, tmp_path).password() == expected
        assert "of the section" not in repr(found)
    for text in ('password_file = "none"', 'password_variable = "NO_SUCH_VARIABLE"'):
        found = section(tmp_path, f'[mqtt]\naddress = "mqtt://b"\n{text}')
        with pytest.raises(SettingError, match="expected a"):
            check_credentials(found)


def test_a_client_id_stays_and_is_another_elsewhere(tmp_path):
    found = section(tmp_path, '[mqtt]\naddress = "mqtt://b"')
    (tmp_path / "other").mkdir()
    first = Credentials(found, tmp_path).client_id
    assert first == Credentials(found, tmp_path).client_id != Credentials(found, tmp_path / "other").client_id
    assert Credentials(section(tmp_path, '[mqtt]\naddress = "mqtt://b"\nclient_id = "me"'), tmp_path).client_id == "me"


def test_tls_wants_files_that_can_be_used(tmp_path):
    assert Credentials(section(tmp_path, '[mqtt]\naddress = "mqtt://b"'), tmp_path).tls() is None
    context = Credentials(section(tmp_path, '[mqtt]\naddress = "mqtts://b"'), tmp_path).tls()
    assert context.check_hostname
    assert context.verify_mode == ssl.CERT_REQUIRED
    (tmp_path / "x").write_text("no certificate")
    for text in ('ca = "none"', 'ca = "x"', 'certificate = "x"\nprivate_key = "x"'):
        with pytest.raises(SettingError, match="expected"):
            check_credentials(section(tmp_path, f'[mqtt]\naddress = "mqtts://b"\n{text}'))


@looped
async def test_subscriptions_are_delivered_to_mqtt_only_where_there_is_a_bridge(tmp_path):
    for name, text, status in (("with", '[mqtt]\naddress = "mqtt://127.0.0.1:1"', 201), ("without", "", 422)):
        (tmp_path / name).mkdir()
        with opened(tmp_path / name, text) as broker:
            headers = token(broker, "ann", ["subscriber"])
            async with client_of(broker, headers=headers) as client:
                body = {"where": "no2 > 1", "deliver": "mqtt"}
                answer = await client.put("/v1/subscriptions/s", json=body)
                assert answer.status_code == status
                lines = await client.post(
                    "/v1/subscriptions", content=b'{"id": "l", "where": "TRUE", "deliver": "mqtt"}',
                    headers={"Content-Type": "application/x-ndjson"},
                )  # fmt: skip
                assert lines.status_code == (200 if status == 201 else 422)
                checked = await client.post("/v1/check", json=body)
                assert bool(checked.json()["mistakes"]) == (status == 422)
                if status == 201:
                    assert answer.json()["deliver"] == "mqtt"
                else:
                    assert answer.json()["code"] == "undeliverable"
                    assert "a section [mqtt]" in answer.json()["detail"]


def test_no_subscription_is_delivered_to_mqtt_of_a_principal_that_the_section_does_not_name(tmp_path):
    with opened(tmp_path, '[mqtt]\naddress = "mqtt://127.0.0.1:1"\nprincipals = ["bob"]') as broker:
        with pytest.raises(RequestError, match="for this principal") as caught:
            expect_deliverable(broker, "ann", "mqtt")
        assert caught.value.code == "undeliverable"
        expect_deliverable(broker, "bob", "mqtt")
        expect_deliverable(broker, "ann", "stream")
