"""The ontology behind B: the W3C's wines where ``../shared`` is there, else ten of them with their colours."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import tidegate as tg
from bench.papers.temporal_kbn.events import PREFIX, RED, WINES

__all__ = ["WINE", "load_wines"]

WINE = Path(__file__).parents[4] / "shared" / "data" / "ontologies" / "wine.rdf"
_loaded: list[str] = []


def load_wines() -> str:
    """Load it once per process; which one it was."""
    if not _loaded:
        if WINE.exists():
            tg.load_ontology(WINE, prefixes={"vin": PREFIX})
            _loaded.append("the W3C's")
        else:
            with TemporaryDirectory() as directory:
                path = Path(directory) / "wines.ttl"
                path.write_text(_ten(), "utf-8")
                tg.load_ontology(path, prefixes={"vin": PREFIX})
            _loaded.append("ten wines of it")
    return _loaded[0]


def _ten() -> str:
    lines = [f"@prefix vin: <{PREFIX}> ."]
    for i, wine in enumerate(WINES):
        lines.append(f"<{wine}> a vin:Wine ; vin:hasColor vin:{'Red' if i < len(RED) else 'White'} .")
    return "\n".join(lines) + "\n"
