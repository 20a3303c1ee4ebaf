"""Writes the archives of one release: ``python -m tests.formats.write RELEASE``, before a format is changed.

``RELEASE/KIND.tar.xz`` has the files and ``RELEASE/answers.json`` what opening them must give. They are never written
again: what was released is what users have.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson

from tests.formats.kinds import KINDS

__all__ = ["HERE", "unpacked"]

HERE = Path(__file__).parent


def unpacked(release: str, kind: str, directory: Path) -> Path:
    """The files of a kind as a release wrote them, in a directory."""
    with tarfile.open(HERE / release / f"{kind}.tar.xz") as archive:
        archive.extractall(directory, filter="data")
    return directory


def write(release: str) -> None:
    target = HERE / release
    target.mkdir()
    answers = {}
    for name, kind in KINDS.items():
        with TemporaryDirectory() as directory:
            kind.write(Path(directory))
            shutil.rmtree(Path(directory) / "cache", ignore_errors=True)
            with tarfile.open(target / f"{name}.tar.xz", "w:xz") as archive:
                archive.add(directory, arcname=".", filter=_anonymous)
            answers[name] = kind.answers(Path(directory))
    (target / "answers.json").write_bytes(orjson.dumps(answers, option=orjson.OPT_INDENT_2) + b"\n")


def _anonymous(file: tarfile.TarInfo) -> tarfile.TarInfo:
    file.uid = file.gid = file.mtime = 0
    file.uname = file.gname = ""
    return file


if __name__ == "__main__":
    write(sys.argv[1])
