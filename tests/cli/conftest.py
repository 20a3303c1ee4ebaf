"""Files that commands read."""

from __future__ import annotations

import pytest

from tests.cli.commands import lines
from tests.cli.matched_files import PUBLICATIONS, SUBSCRIPTIONS


@pytest.fixture
def subscriptions(tmp_path):
    return lines(tmp_path / "subscriptions.jsonl", SUBSCRIPTIONS)


@pytest.fixture
def publications(tmp_path):
    return lines(tmp_path / "publications.jsonl", PUBLICATIONS)
