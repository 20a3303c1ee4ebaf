"""Files of every format that was ever written are read, or made again, and answer as they did."""

from __future__ import annotations

import orjson
import pytest

from tests.formats.kinds import KINDS
from tests.formats.write import HERE, unpacked

RELEASES = sorted(path.name for path in HERE.iterdir() if (path / "answers.json").exists())


def test_every_kind_has_its_files_in_every_release():
    for release in RELEASES:
        assert {path.name.removesuffix(".tar.xz") for path in (HERE / release).glob("*.tar.xz")} <= KINDS.keys()
    assert {path.name.removesuffix(".tar.xz") for path in (HERE / RELEASES[-1]).glob("*.tar.xz")} == KINDS.keys()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("release", RELEASES)
def test_what_a_release_has_written_answers_as_it_did(release, kind, tmp_path):
    expected = orjson.loads((HERE / release / "answers.json").read_bytes())[kind]
    found = KINDS[kind].answers(unpacked(release, kind, tmp_path))
    assert orjson.loads(orjson.dumps(found)) == expected
