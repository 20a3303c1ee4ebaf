"""The connection with Java ends in order, and a Java that hangs up by itself is not told on the terminal.

Java is played by a server that answers every message of py4j with nothing.
"""

from __future__ import annotations

import subprocess
import sys

_JAVA = """
import socket, struct, threading, time
from py4j.clientserver import SHUTDOWN_FINALIZER_WORKER, FinalizerWorker
from tidegate.pipeline.java_process import connected, hang_up

told = []
free = threading.Event()
free.set()
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
                if message.startswith(b"m"):
                    free.wait()
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
def answer_late():
    until(lambda: waiting[-1] == SHUTDOWN_FINALIZER_WORKER)
    free.set()

free.clear()
for number in range(50):
    forget(f"o{number}")
until(memory)
waiting = connection._gateway_client.finalizer_deque
threading.Thread(target=answer_late).start()
hang_up(connection)
assert not workers()
until(lambda: any(message.startswith(b"s") for message in told))
assert len(memory()) == 1, "what waits is not told any more"
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
java = socket.socket()
until(lambda: java.connect_ex(("127.0.0.1", callbacks.get_listening_port())) == 0)  # it begins to listen in a thread
with java:  # which calls nobody
    until(lambda: len(callbacks.connections) == 1)
    time.sleep(0.5)  # until its thread waits for a call
    hang_up(connection)
    assert java.recv(1) == b""
"""


def _run(script: str) -> None:
    command = [sys.executable, "-W", "error", "-c", _JAVA + script]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.stderr == ""
    assert ran.returncode == 0


def test_what_is_being_told_is_answered_before_java_is_told_to_hang_up():
    _run(_ORDER)


def test_threads_that_wait_for_a_call_of_java_are_not_waited_for():
    _run(_CALLBACKS)


def test_a_java_that_hangs_up_amid_an_answer_is_not_told_on_the_terminal():
    _run(_RESET)
