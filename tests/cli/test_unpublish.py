"""unpublish: what is withdrawn from a data directory, and publish where the log has what comes again."""

from __future__ import annotations

from tests.cli.commands import PUBLICATIONS, lines, refused, run
from tests.store.log_contents import contents
from tidegate.store.data_directory import DataDirectory
from tidegate.store.log import Log, read


def test_a_publication_is_withdrawn_once(tmp_path):
    data = DataDirectory.made(tmp_path / "broker", "process")
    run("publish", data.path, lines(tmp_path / "p.jsonl", PUBLICATIONS))
    one = PUBLICATIONS[0]
    found = run("unpublish", "--data", data.path, one["source"], one["id"])
    assert found.stderr == "withdrawn; the log ends at row 4\n"
    for source, id in ((one["source"], one["id"]), (one["source"], "nobody's"), ("nowhere", one["id"])):
        found = run("unpublish", "--data", data.path, source, id, code=1)
        assert found.stderr == f"there is no publication {id!r} of {source!r} to withdraw\n"
    with Log(data.log, create=False) as log:
        assert log.end == 4
        frames = [frame for part in log.slices(0, 4, 1) for frame in read(part, withdrawn=True)]
    assert frames[-1].batch.to_pylist() == [{"source": one["source"], "id": one["id"], "rows": [0]}]
    assert "a data directory; got" in refused("unpublish", "--data", tmp_path / "none", "a", "b")


def test_what_is_published_again(tmp_path):
    data = DataDirectory.made(tmp_path / "broker", "process")
    file = lines(tmp_path / "p.jsonl", PUBLICATIONS)
    assert "3 publications appended in " in run("publish", data.path, file).stderr
    again = run("publish", data.path, file).stderr
    assert again.startswith("0 publications appended in ")
    assert again.endswith(" s, 3 were there already; the log ends at row 3\n")
    records = [PUBLICATIONS[0] | {"new": 1}, PUBLICATIONS[1], PUBLICATIONS[2] | {"id": "n"}]
    changed = lines(tmp_path / "q.jsonl", records)
    again = run("publish", data.path, changed, code=1).stderr
    assert again.startswith("1 publications appended in ")
    refusal = "1 refused: the log has others with the same source, id and phase"
    assert again.endswith(f" s, 1 were there already, {refusal}; the log ends at row 4\n")
    text = changed.read_text("utf-8")
    assert "0 publications appended" in run("publish", data.path, "-", input=text, code=1).stderr
    with Log(data.log, create=False) as log:
        assert [row["id"] for row in contents(log)] == [*(row["id"] for row in PUBLICATIONS), "n"]
