"""--shapes: expressions may name the shapes of a file, wherever they are compiled, and only in that call."""

from __future__ import annotations

import orjson
import pytest

import tidegate as tg
from tests.cli.commands import CONFIG, config, lines, refused, run
from tidegate.shapes.named_shapes import own, use

MINE = "[shapes.my-shape]\npoints = [0, 5, 1]\n"
WHERE = "shape(close, 'my-shape') <= 0.5"
UNKNOWN = "expected the name of a shape"
NEAR = {"id": "p1", "source": "z", "time": "2026-11-15T08:00:00Z", "close": [10, 60, 20]}
FAR = NEAR | {"id": "p2", "close": [10, 20, 30]}


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(MINE)
    return path


@pytest.fixture
def subscriptions(tmp_path):
    return lines(tmp_path / "s.jsonl", [{"id": "s", "subscriber": "ann", "where": WHERE}])


@pytest.fixture(autouse=True)
def no_trace():
    yield
    assert own() == []


def test_check(mine, subscriptions):
    assert "1 good, 0 wrong" in run("check", subscriptions, "--shapes", mine).stdout
    result = run("check", subscriptions, code=1)
    assert "0 good, 1 wrong" in result.stdout
    assert UNKNOWN in result.stderr


def test_match(tmp_path, mine, subscriptions):
    publications = lines(tmp_path / "p.jsonl", [NEAR, FAR])
    found = run("match", subscriptions, publications, "--shapes", mine).stdout.splitlines()
    assert [orjson.loads(line)["publication_ids"] for line in found] == [["p1"]]
    assert UNKNOWN in run("match", subscriptions, publications, code=2).stderr


def test_explain(mine, subscriptions):
    assert "s matches p1" in run("explain", subscriptions, "s", orjson.dumps(NEAR).decode(), "--shapes", mine).stdout
    assert UNKNOWN in run("explain", subscriptions, "s", orjson.dumps(NEAR).decode(), code=2).stderr


def test_subscribe(tmp_path, mine, subscriptions):
    place = tmp_path / "registry.db"
    one = ("--id", "t", "--subscriber", "ann", "--where", WHERE)
    assert UNKNOWN in run("subscribe", place, *one, code=2).stderr
    run("subscribe", place, *one, "--shapes", mine)
    run("subscribe", place, subscriptions, "--shapes", mine)
    with tg.Registry(place) as registry:
        assert all(s.where["args"][0]["args"][2] == "stretched" for s in registry)  # written out: nobody needs the file


def test_a_config_file_brings_its_own(tmp_path, mine, subscriptions):
    path = config(tmp_path, CONFIG + '\n[shapes]\nfile = "mine.toml"\n')
    run("subscribe", path, subscriptions)
    more = tmp_path / "more.csv"
    more.write_text("other, 1, 2, 1\n")
    where = f"{WHERE} AND NOT shape(close, 'other') <= 1"
    run("subscribe", path, "--id", "t", "--subscriber", "ann", "--where", where, "--shapes", more)
    more.write_text("my-shape, 1, 2, 1\n")
    assert "other points than before" in refused(
        "subscribe", path, "--id", "u", "--subscriber", "ann", "--where", WHERE, "--shapes", more
    )


@pytest.mark.parametrize(
    "content", ["", "shapes = 3", "[shapes.spike]\npoints = [1, 2, 3]", "[shapes.a]\npoints = [1]"]
)
def test_a_file_that_cannot_be_used_is_one_message(mine, subscriptions, content):
    mine.write_text(content)
    assert str(mine) in refused("check", subscriptions, "--shapes", mine)


def test_a_file_that_is_not_there(tmp_path, subscriptions):
    assert "a file of shapes; got No such file" in refused("check", subscriptions, "--shapes", tmp_path / "no.toml")


def test_in_python(mine):
    with use():
        (shape,) = tg.load_shapes(mine)
        assert (shape.name, shape.points) == ("my-shape", (0, 5, 1))
        assert tg.load_shapes(str(mine)) == [shape]
        engine = tg.Engine([tg.Subscription("s", "ann", WHERE)])
    assert len(engine) == 1
    with pytest.raises(tg.SettingError, match="the path of a file of shapes; got 7"):
        tg.load_shapes(7)
    assert "load_shapes" in tg.__all__


def test_a_run_knows_them_and_tells_its_workers(tmp_path, spark, mine, subscriptions):
    from tidegate.index.shapes import looked_up_with

    before = looked_up_with()
    sink = '[[sinks]]\ntype = "console"\n'
    text = CONFIG.replace('registry = "registry.db"', 'registry = "registry.db"\nfile = "s.jsonl"') + sink
    path = config(tmp_path, text + '[shapes]\nfile = "mine.toml"\nstructure = "interval"\n')
    run("run", path, "--available-now")
    run("subscribe", path, "--id", "t", "--subscriber", "ann", "--where", WHERE)
    run("publish", path, lines(tmp_path / "p.jsonl", [NEAR, FAR, FAR | {"id": "p3", "close": [4, 4, 4]}]))
    result = run("run", path, "--available-now")
    told = [orjson.loads(line) for line in result.stdout.splitlines()]
    assert sorted((row["subscription_id"], *row["publication_ids"]) for row in told) == [
        ("ann/s", "p1"),
        ("ann/t", "p1"),
    ]
    assert "1 shapeless" in result.stderr.splitlines()[-1]
    assert "  shapeless        1\n" in run("status", path).stdout
    assert looked_up_with() == before
    found = [
        orjson.loads(p.read_bytes())["lookups"]["shape"] for p in tmp_path.glob("registry.db.snapshots/*/index.json")
    ]
    assert {facts["structure"] for facts in found} == {"interval"}

    # What is in the registry needs no file.
    run("subscribe", path, "--id", "u", "--subscriber", "ann", "--where", WHERE)
    path.write_text(text)
    run("publish", path, lines(tmp_path / "q.jsonl", [NEAR | {"id": "p4"}]))
    told = [orjson.loads(line) for line in run("run", path, "--available-now").stdout.splitlines()]
    assert sorted((row["subscription_id"], *row["publication_ids"]) for row in told) == [
        (f"ann/{id}", "p4") for id in "stu"
    ]
