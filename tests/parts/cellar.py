"""A small ontology of wines: classes, and who is in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = ["CELLAR", "PREFIXES", "cellar"]

CELLAR = "http://example.org/cellar#"
PREFIXES = {"w": CELLAR}
_HEAD = f"@prefix w: <{CELLAR}> .\n@prefix owl: <http://www.w3.org/2002/07/owl#> .\n"


def cellar(path: Path, **classes: Sequence[str]) -> Path:
    """Write a Turtle file with these classes and their members."""
    said = [f"w:{name} a owl:Class ." for name in classes]
    said += [f"w:{member} a w:{name} ." for name, members in classes.items() for member in members]
    path.write_text("\n".join([_HEAD, *said, ""]))
    return path
