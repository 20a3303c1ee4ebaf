"""Jurca et al., repeated: filter-split-forward and its rivals in networks of brokers, swept over sizes and seeds."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from bench.harness import say
from bench.sensorscope import FOLDER

__all__ = ["RESULTS", "main"]

#: The results folder of the stored sweep, which the page beside it is written from.
RESULTS = Path(__file__).parent / "results"


def main(quick: bool = False) -> None:
    """Sweep over what the stored results do not have yet, then write the page and the figures from them."""
    # Here, so that reading results loads neither Spark nor the simulation.
    from bench.papers.filter_split_forward.commands import commands
    from bench.papers.filter_split_forward.page import write_stored

    if quick:
        with TemporaryDirectory(prefix="tidegate-") as folder:
            commands(["run", folder, "--quick"])
            commands(["figures", folder])
        say("a quick run keeps no results")
        return
    if FOLDER.is_dir():
        commands(["run", str(RESULTS)])
    else:
        say("SensorScope's files are not there, so nothing is measured; the page is written from the stored results")
    write_stored()
