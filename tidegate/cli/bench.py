"""``tidegate bench``: runs the benches of a checkout, each in a process of its own."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

import tidegate
from tidegate.errors import SettingError, shown

__all__ = ["bench"]


def bench(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Which one; without it, their names are listed.")] = None,
) -> None:
    """Run a bench of this checkout; further arguments go to it.

    \b
    Example:
      tidegate bench boolean-intervals
    """
    root = _checkout()
    sys.path.insert(0, str(root))
    names = importlib.import_module("bench").names()
    if name is None:
        for known, summary in names.items():
            typer.echo(f"{known:<20} {summary}")
        return
    if name not in names:
        raise SettingError(f"a bench, one of {', '.join(names)}", shown(name))
    done = subprocess.run([sys.executable, "-m", "bench", name, *context.args], cwd=root, check=False)
    raise typer.Exit(done.returncode)


def _checkout() -> Path:
    for root in (Path(tidegate.__file__).parents[1], Path.cwd()):
        if (root / "bench" / "__main__.py").exists():
            return root
    raise SettingError("a checkout of Tidegate, which has the benches", "an installed package without them")
