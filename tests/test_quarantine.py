"""The quarantine as files: which of them a batch replaces, and which stay."""

from __future__ import annotations

from tidegate.runs.quarantine import Quarantine, QuarantinedRow


def rows(*reasons):
    return [QuarantinedRow(reason, f"row of {reason}") for reason in reasons]


def reasons(quarantine):
    return [row.reason for row in quarantine.faults()]


def test_a_batch_that_runs_again_replaces_its_own_rows_and_no_others(tmp_path):
    quarantine = Quarantine.at(tmp_path)
    quarantine.keep(1, 0, rows("a", "b"))
    quarantine.keep(1, 1, rows("c"))
    quarantine.keep(12, 0, rows("d"))
    quarantine.begin(1)
    assert reasons(quarantine) == ["d"]
    quarantine.keep(1, 0, rows("e"))
    quarantine.keep(1, 0, rows("f"))
    assert reasons(quarantine) == ["f", "d"], "in the order of batches; the second attempt of a part replaces the first"


def test_queries_that_share_a_directory_keep_apart(tmp_path):
    one, longer, nameless = (Quarantine.at(tmp_path, query) for query in ("one", "one-more", ""))
    for quarantine, reason in ((one, "a"), (longer, "b"), (nameless, "c")):
        quarantine.keep(0, 0, rows(reason))
    assert (reasons(one), reasons(longer)) == (["a"], ["b"])
    assert sorted(reasons(nameless)) == ["a", "b", "c"], "without a name, everybody's"
    one.begin(0)
    nameless.begin(0)
    assert (reasons(one), reasons(longer), reasons(nameless)) == ([], ["b"], ["b"])
