"""What a backup holds of a file is whole, also if another one takes its place at that moment."""

from __future__ import annotations

import os

import pytest

from tidegate.broker import held_files
from tidegate.broker.held_files import HeldFiles


@pytest.mark.parametrize("is_linked", [False, True])
@pytest.mark.parametrize("after", [b"[1, 2, 3, 4]", b"[]"])
def test_a_file_that_is_replaced_while_it_is_held_is_held_whole(tmp_path, monkeypatch, is_linked, after):
    manifest = tmp_path / "manifest.json"
    manifest.write_bytes(b"[1, 2]")
    owner, name = (os, "link") if is_linked else (held_files, "copied")
    take = getattr(owner, name)

    def replaced_first(*arguments, **more):
        aside = tmp_path / "manifest.json.new"
        aside.write_bytes(after)
        os.replace(aside, manifest)
        return take(*arguments, **more)

    with HeldFiles.of(tmp_path) as held:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, replaced_first)
            found = held.hold(manifest.name, linked=is_linked)
        assert found.read_bytes() == after
        assert held.lengths == {manifest.name: len(after)}


def test_of_a_file_that_grows_so_many_bytes_are_held_as_were_asked_for(tmp_path):
    (tmp_path / "1.journal").write_bytes(b"whole torn")
    with HeldFiles.of(tmp_path) as held:
        assert held.hold("1.journal", 5).read_bytes() == b"whole"
        assert held.lengths == {"1.journal": 5}
