"""Settings that are read again: whoever lets callers in hears of them, also while it starts."""

from __future__ import annotations

import asyncio
import pickle
import socket
from dataclasses import replace

from tidegate.gateway.gateway_process import ConfigReceiver
from tidegate.gateway.supervised_process import SupervisedProcess
from tidegate.gateway.supervisor import Settings, Supervisor
from tidegate.runs.config import load
from tidegate.runs.issuer_sections import IssuerSection

ISSUER = IssuerSection(issuer="https://login.example", audience=("tidegate",), keys="/keys.json")


def test_a_gateway_that_is_starting_takes_what_comes_meanwhile():
    taken = []

    async def run():
        receiver = ConfigReceiver(taken.append)
        for number in (1, 2):
            receiver.received(pickle.dumps(number))
        assert taken == []
        receiver.begin()
        assert taken == [2]
        await asyncio.to_thread(receiver.received, pickle.dumps(3))
        await asyncio.sleep(0)
        assert taken == [2, 3]
        receiver.end()
        receiver.received(pickle.dumps(4))
        await asyncio.sleep(0)
        assert taken == [2, 3]

    asyncio.run(run())


def test_a_bridge_hears_of_issuers_and_a_new_one_has_those_of_now(tmp_path, monkeypatch):
    told = {}
    monkeypatch.setattr(
        SupervisedProcess, "tell", lambda self, content: told.update({self.name: pickle.loads(content)})
    )
    (tmp_path / "service.toml").write_text(
        '[run]\ndata = "data"\nrunner = "process"\n[mqtt]\naddress = "mqtt://localhost"\n'
    )
    config = replace(load(tmp_path / "service.toml"), issuers=(ISSUER,))
    found = replace(config, issuers=(), mqtt=None)

    async def run():
        with socket.socket() as listening:
            supervisor = Supervisor(Settings(config, lambda: found, ()), config.made(), listening, "a", lambda: None)
            supervisor._reload()
            (bridge,) = supervisor._bridges
            assert told[bridge.name].issuers == told["gateway 1"].issuers == ()
            first = pickle.loads(bridge._command.first())
            assert (first.issuers, first.mqtt) == ((), config.mqtt)  # what it bridges counts from the next start on

    asyncio.run(run())
