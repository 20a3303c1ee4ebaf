"""How the figures of all papers look, and how a figure becomes a file: PNG, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

__all__ = ["STYLE", "save"]

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.which": "major",
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
}


def save(figure: Figure, folder: Path, name: str) -> str:
    """Write the figure as PNG; its name, without the ending. The same figure gives the same file."""
    figure.savefig(folder / f"{name}.png", dpi=110, metadata={"Software": None})
    return name
