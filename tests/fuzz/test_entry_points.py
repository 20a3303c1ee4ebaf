"""Every entry point: what is right is accepted, what once failed is mended, and a few new inputs in each run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import run
from tests.fuzz.entries import ENTRIES
from tests.fuzz.entry_point import ACCEPTED, EntryPoint
from tests.fuzz.odd_entry import Odd
from tests.fuzz.worker import examine, examine_fairly

#: Inputs in make test, by what one takes.
COUNTS = dict.fromkeys(ENTRIES, 150) | {"text": 300, "cql2-json": 300, "toml": 400, "overlay-messages": 400, "rdf": 100}
#: Those whose files carry checksums, so that nearly every change is refused.
SEALED = {"log-segments", "snapshots", "queue-files"}


@pytest.fixture(scope="module")
def entry(request):
    return ENTRIES[request.param]()


@pytest.mark.parametrize("entry", ENTRIES, indirect=True)
def test_what_is_right_is_accepted(entry, tmp_path):
    found = [examine_fairly(entry, data, tmp_path) for data in entry.seeds()[:20]]
    assert not any(why for _, _, why in found)
    assert sum(outcome == ACCEPTED for outcome, _, _ in found) > len(found) / 2


@pytest.mark.parametrize("entry", ENTRIES, indirect=True)
def test_a_few_inputs(entry, tmp_path):
    """Others in make thorough; here always the same, so that a failure is not by chance."""
    outcomes = [_examined(entry, entry.input(0, i), tmp_path) for i in range(COUNTS[entry.name])]
    share = outcomes.count(ACCEPTED) / len(outcomes)
    least = 0.0 if entry.name in SEALED else 0.02
    assert least <= share < 0.98, f"{share:.0%} are accepted: such inputs find nothing"


FINDINGS = sorted(run.FINDINGS.glob("*/*"))


@pytest.mark.parametrize("path", FINDINGS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_once_failed(path, tmp_path):
    _examined(ENTRIES[path.parent.name](), path.read_bytes(), tmp_path)


def _examined(entry: EntryPoint, data: bytes, scratch: Path) -> str:
    outcome, _, why = examine_fairly(entry, data, scratch)
    assert not why, f"{entry.name}, {data[:300]!r}: {why}"
    return outcome


@pytest.mark.thorough
@pytest.mark.parametrize("name", ENTRIES)
def test_many_inputs(name):
    """Twenty thousand at a time, in other processes; the whole million is a command (CONTRIBUTING.md)."""
    report = run.fuzz(name, 20_000, seed=1)
    assert not report.failures, f"{report}"
    assert report.count == 20_000


# --- the harness itself ---------------------------------------------------------------------------------------------


def test_the_same_seed_draws_the_same():
    for name in ENTRIES:
        one, other = ENTRIES[name](), ENTRIES[name]()
        assert [one.input(4, i) for i in range(5)] == [other.input(4, i) for i in range(5)]
        assert len({one.input(4, i) for i in range(40)}) > 10


def test_failures_are_told_apart(tmp_path):
    odd = Odd()
    assert [examine(odd, data, tmp_path)[0] for data in (b"fine", b"refused", b"wrong", b"raises", b"slow")] == [
        ACCEPTED,
        "parse",
        "failure",
        "failure",
        "slow",
    ]
    assert "2 and 2 are 5" in examine(odd, b"wrong", tmp_path)[2]


def test_a_death_has_the_number_of_its_input(monkeypatch):
    """The worker is started anew behind it, and nothing is counted twice."""
    monkeypatch.setenv("TIDEGATE_FUZZ_EXTRA", f"{Odd.__module__}:{Odd.__name__}")
    report = run.fuzz("odd", 12, seed=1, workers=1)
    assert {number for number, _ in report.failures} == {3, 5, 7, 9}
    assert "ended with -11" in dict(report.failures)[5]
    assert (report.count, report.outcomes["death"], report.outcomes["slow"]) == (12, 1, 1)
    assert "12 inputs" in str(report)
    assert "input 5: the process ended with -11" in str(report)
