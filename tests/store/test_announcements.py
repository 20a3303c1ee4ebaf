"""Announcements in the registry's database: kept by principal and source, listed in pages, beside older registries."""

from __future__ import annotations

import pytest
from sqlalchemy import text

import tidegate as tg
from tests.formats.test_formats import RELEASES
from tests.formats.write import unpacked
from tidegate.store.announcements import PART, StoredAnnouncements, TooManyAnnouncements
from tidegate.store.database import Database
from tidegate.store.database_url import address
from tidegate.store.registry import Registry
from tidegate.store.schema import SchemaPart

NOW = 1_763_193_600_000_000


@pytest.mark.contract
def test_one_of_a_principal_and_source_at_a_time(url):
    with StoredAnnouncements(url, clock=lambda: NOW) as here, StoredAnnouncements(url, clock=lambda: NOW + 1) as there:
        first = here.put("ann", "z7", '{"n": 1}', 2)
        assert first.is_new
        again = there.put("ann", "z7", '{"n": 2}', 2)
        assert (again.is_new, again.announcement.id) == (False, first.announcement.id)
        assert here.find(first.announcement.id) == again.announcement
        assert (again.announcement.announced - first.announcement.announced).microseconds == 1
        others = [there.put(*named, "{}", 2).announcement for named in (("bob", "z7"), ("ann", "Ž/z7"))]
        with pytest.raises(TooManyAnnouncements, match="at most 2 announcements of ann"):
            here.put("ann", "z8", "{}", 2)
        assert not here.put("ann", "Ž/z7", "{}", 2).is_new
        all_ids = sorted([first.announcement.id, *(one.id for one in others)])
        assert [one.id for one in here.page(None, "", 9)] == all_ids
        assert [one.id for one in here.page(None, all_ids[0], 1)] == all_ids[1:2]
        assert [one.source for one in here.page("bob", "", 9)] == ["z7"]
        assert not here.remove(first.announcement.id, "bob")
        assert here.remove(first.announcement.id, "ann")
        assert not here.remove(first.announcement.id)
        assert here.find(first.announcement.id) is here.find("\0") is None


@pytest.mark.parametrize("release", RELEASES)
def test_they_are_kept_beside_the_registry_of_a_release(release, tmp_path):
    path = unpacked(release, "registry", tmp_path) / "registry.db"
    with Registry(path) as registry, StoredAnnouncements(registry) as announcements:
        there = len(registry)
        assert announcements.put("ann", "z7", "{}", 1).is_new
        assert len(registry) == there > 0


def test_those_of_a_newer_tidegate_are_refused(tmp_path):
    path = tmp_path / "registry.db"
    with StoredAnnouncements(path) as announcements:
        announcements.put("ann", "z7", "{}", 1)
    newer = SchemaPart("announcements", (*PART.steps, lambda connection: connection.execute(text("SELECT 1"))))
    database = Database(address(path), newer.prepare)
    database.open()
    database.close()
    with pytest.raises(tg.TidegateError, match="version 2, made by a newer Tidegate"):
        StoredAnnouncements(path)
