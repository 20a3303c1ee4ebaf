"""publish: what is counted is in the log, with the version of the registry at that moment."""

from __future__ import annotations

import os
import subprocess
import sys
from time import sleep

import orjson
import pytest

from tests.cli.commands import CONFIG, PUBLICATIONS, SUBSCRIPTIONS, config, lines, refused, run
from tidegate.store.log import Log, read
from tidegate.store.registry import Registry


@pytest.fixture
def file(tmp_path):
    return lines(tmp_path / "publications.jsonl", PUBLICATIONS)


def logged(path) -> list[tuple[str, int]]:
    """The ids in a log, and their versions."""
    with Log(path, create=False) as log:
        frames = [frame for part in log.slices(log.begin, log.end, 1) for frame in read(part)]
    return [(id, frame.version) for frame in frames for id in frame.batch.column("id").to_pylist()]


def test_a_file_and_standard_input(tmp_path, file):
    log = tmp_path / "some.log"
    result = run("publish", log, file)
    assert result.stdout == ""
    assert result.stderr.startswith("3 publications appended in ")
    assert result.stderr.endswith("the log ends at row 3\n")
    more = [record | {"id": f"more-{record['id']}"} for record in PUBLICATIONS]
    text = "\n\n".join(orjson.dumps(record).decode() for record in more)  # the last line has no end
    assert "3 publications appended" in run("publish", log, "-", input=text).stderr
    assert [id for id, _ in logged(log)] == ["p1", "p2", "p3", "more-p1", "more-p2", "more-p3"]


def test_versions_are_stamped(tmp_path, file):
    place, log = tmp_path / "registry.db", tmp_path / "some.log"
    assert "a registry that exists" in refused("publish", log, file, "--registry", place)
    run("subscribe", place, lines(tmp_path / "s.jsonl", SUBSCRIPTIONS))
    run("publish", log, file, "--registry", place)
    run("unsubscribe", place, "ann/s1")
    run("publish", log, file, "--registry", place)
    assert [version for _, version in logged(log)] == [3, 3, 3, 4, 4, 4]
    assert "a version of 4 or more, as in the log; got 0" in refused("publish", log, file)


def test_a_config_names_log_and_registry(tmp_path, file):
    path = config(tmp_path)
    with Registry(tmp_path / "registry.db") as registry:
        registry.subscribe()
    run("publish", path, file)
    assert len(logged(tmp_path / "readings.log")) == 3
    assert "the registry of the CONFIG file" in refused("publish", path, file, "--registry", "other.db")
    config(tmp_path, CONFIG.replace('type = "log"', 'type = "files"'))
    assert 'a CONFIG file whose source is a log (type = "log")' in refused("publish", path, file)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nonsense", "a JSON object on each line; got 'nonsense', where "),
        ("[1]", "a JSON object on each line; got [1]; at standard input, line 2"),
        ('{"id": "x"}', "at standard input, line 2"),
        ('{"id": "x", "source": "s", "time": "soon"}', "as time; got 'soon'; at standard input, line 2"),
    ],
)
def test_what_is_no_publication_is_named_with_its_line(tmp_path, text, words):
    good = orjson.dumps(PUBLICATIONS[0]).decode()
    result = run("publish", tmp_path / "some.log", "-", input=f"{good}\n{text}\n", code=2)
    assert words in result.stderr
    assert "0 publications appended" in result.stderr
    assert logged(tmp_path / "some.log") == []


def test_a_bad_file_says_how_many_were_taken(tmp_path):
    many = [PUBLICATIONS[0] | {"id": f"p{i}"} for i in range(9000)]
    path = lines(tmp_path / "many.jsonl", [*many, {"id": "bad"}])
    result = run("publish", tmp_path / "some.log", path, code=2)
    assert "8,192 publications appended" in result.stderr
    assert f"{path}, line 9001" in result.stderr


def test_lines_are_appended_as_they_come(tmp_path):
    """A publisher that never ends must not wait for a batch to fill."""
    log = tmp_path / "some.log"
    code = "import sys; from tidegate.cli import main; sys.argv[0] = 'tidegate'; main()"
    command = [sys.executable, "-c", code, "publish", str(log), "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ) as process:
        process.stdin.write(orjson.dumps(PUBLICATIONS[0]) + b"\n")
        process.stdin.flush()
        with Log(log) as watched:
            while watched.end < 1:
                assert process.poll() is None
                sleep(0.01)
        process.stdin.close()
        assert b"1 publications appended" in process.stderr.read()
    assert process.returncode == 0


def test_a_damaged_frame_is_named_and_given_up(tmp_path, file):
    log = tmp_path / "some.log"
    for _ in range(3):
        run("publish", log, file)
    assert run("log", "check", log).stdout == "9 rows, 0 of them in 0 damaged frames\n"
    with Log(log, create=False) as opened:
        at = opened.slices(0, 3, 1)[0].last_byte
    segment = log / f"{0:020d}.log"
    content = bytearray(segment.read_bytes())
    content[at + 100] ^= 1
    segment.write_bytes(content)
    found = run("log", "check", log, code=1).stdout.splitlines()
    assert found == [
        f"rows 3 to 5: one that is not as it was written, by its checksum; at byte {at} of {segment}",
        "9 rows, 3 of them in 1 damaged frames",
    ]
    assert run("log", "check", log, "--drop").stdout.splitlines()[-1] == "9 rows, 3 of them in 1 dropped frames"
    assert run("log", "check", log).stdout == "9 rows, 0 of them in 0 damaged frames\n"
    assert [id for id, _ in logged(log)] == ["p1", "p2", "p3"] * 2
