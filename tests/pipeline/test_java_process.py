"""The connection with Java ends in order, and a Java that hangs up by itself is not told on the terminal.

Java is played by a server that answers every message of py4j with nothing.
"""

from __future__ import annotations

import subprocess
import sys

_JAVA = """
import socket, struct, threading, time
from py4j.clientserver import FinalizerWorker
from tidegate.pipeline.java_process import connected, hang_up

told = []
pause = 0.0
resets = False

def answer(connection):
    with connection, connection.makefile("rb") as lines:
        message = b""
        while line := lines.readline():
            message += line
            if line == b"e\\n" or line.startswith(b"secret"):
                told.append(message)
                if resets and message.startswith(b"m"):
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return
                time.sleep(pause if message.startswith(b"m") else 0)
                connection.sendall(b"!yv\\n")
                message = b""
        told.append(message)

def listen(server):
    while True:
        threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()

def workers():
    return [thread for thread in threading.enumerate() if isinstance(thread, FinalizerWorker)]

def until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, told
        time.sleep(0.01)

server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=listen, args=(server,), daemon=True).start()
connection = connected(server.getsockname()[1], "secret")
forget = connection._gateway_client.garbage_collect_object
memory = lambda: [message for message in told if message.startswith(b"m")]
"""

_ORDER = """
pause = 0.5
for number in range(50):
    forget(f"o{number}")
until(memory)
hang_up(connection)
assert not workers()
until(lambda: told[-1].startswith(b"s"))
assert len(memory()) <= 2, "what waits is not told any more"
forget("o50")
hang_up(connection)
"""

_RESET = """
resets = True
forget("o1")
until(memory)
hang_up(connection)
assert not workers()
try:
    connection.jvm.java.lang.System.gc()
except Exception:
    pass
"""

_CALLBACKS = """
parameters = connection.callback_server_parameters
parameters.daemonize = parameters.daemonize_connections = True
connection.start_callback_server(parameters)
callbacks = connection.get_callback_server()
with socket.create_connection(("127.0.0.1", callbacks.get_listening_port())) as java:  # which calls nobody
    until(lambda: len(callbacks.connections) == 1)
    time.sleep(0.5)  # until its thread waits for a call
    hang_up(connection)
    assert java.recv(1) == b""
"""


def _run(script: str) -> None:
    command = [sys.executable, "-W", "error", "-c", _JAVA + script]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.stderr == ""
    assert ran.returncode == 0


def test_what_is_being_told_is_answered_before_java_is_told_to_hang_up():
    _run(_ORDER)


def test_threads_that_wait_for_a_call_of_java_are_not_waited_for():
    _run(_CALLBACKS)


def test_a_java_that_hangs_up_amid_an_answer_is_not_told_on_the_terminal():
    _run(_RESET)
