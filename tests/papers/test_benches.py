"""``python -m bench``: lists every bench with its summary, and refuses what is none."""

from __future__ import annotations

from importlib import import_module

import pytest

import bench
from bench.__main__ import main


def test_every_bench_is_listed_with_its_summary(capsys):
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(bench.MODULES)
    assert all(line.endswith(".") for line in lines)


def test_summaries_are_those_of_the_modules():
    for name in ("timeseries", "temporal-kbn", "filter-split-forward"):
        assert bench.names()[name] == import_module(bench.MODULES[name]).__doc__.strip().splitlines()[0]


def test_a_bench_is_run(monkeypatch):
    ran = []
    monkeypatch.setattr(bench, "run", lambda *arguments: ran.append(arguments))
    assert main(["cupus"]) == main(["filter-split-forward", "--quick"]) == 0
    assert ran == [("cupus", False), ("filter-split-forward", True)]


def test_what_is_no_bench_is_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["nonsense"])
    assert "invalid choice: 'nonsense'" in capsys.readouterr().err
