"""A bridge as a process: ``python -m tidegate.mqtt.bridge_process``, which only the supervisor of a broker starts.

Its first message from there says what to bridge, further ones have other issuers. It opens the broker as a
gateway does and listens to nobody.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal

from tidegate.broker.garbage_collection import look_for_cycles_seldom
from tidegate.broker.supervised import follow_starter, next_message
from tidegate.errors import SettingError, TidegateError
from tidegate.gateway.broker_locks import gateway_lock
from tidegate.gateway.gateway_process import ConfigReceiver, new_loop
from tidegate.gateway.open_broker import OpenBroker
from tidegate.gateway.process_log import log_to_standard_error
from tidegate.mqtt.bridge import Bridge
from tidegate.mqtt.credentials import Credentials
from tidegate.runs.config import Config

__all__ = ["bridge", "main"]

#: The exit code that says that what it was given cannot be used.
_UNUSABLE = 2
_LOCK = "mqtt"
_LOG = logging.getLogger("tidegate.mqtt")


def main() -> int:
    """Bridge until the supervisor says otherwise; the exit code."""
    given = next_message()
    if given is None:
        return 1
    config: Config = pickle.loads(given)  # what our starter wrote, nobody else
    log_to_standard_error("mqtt bridge")
    try:
        with OpenBroker(config, is_gateway=False) as broker:
            place = gateway_lock(broker.data, _LOCK)
            receiver = ConfigReceiver(lambda config: broker.access.issuers.reload(config.issuers))
            follow_starter(receiver.received)
            look_for_cycles_seldom()
            with asyncio.Runner(loop_factory=new_loop) as runner:
                runner.run(bridge(broker, receiver))
            place.release()
            return 0
    except TidegateError as wrong:
        _LOG.error("%s", wrong)
        return _UNUSABLE
    except Exception:
        _LOG.exception("the bridge failed")
        return 1


async def bridge(broker: OpenBroker, receiver: ConfigReceiver) -> None:
    """Bridge an open broker until SIGTERM."""
    section = broker.config.mqtt
    if section is None:
        raise SettingError("a section [mqtt]", "none", str(broker.config.file))
    made = Bridge(broker, section, Credentials(section, broker.data.run))
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, made.stop)
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # Ctrl-C is for the supervisor
    receiver.begin()
    await broker.start()
    try:
        await made.run()
    finally:
        receiver.end()
        broker.closing.set()
        await broker.stop()


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    os._exit(code)  # Python would take a third of a second to take itself apart, of the five that a broker has
