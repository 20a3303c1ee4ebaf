"""What all tests share: the profiles of hypothesis, what the markers mean, and the ontology of the laws."""

from __future__ import annotations

import pytest

import tests.parts.profiles  # noqa: F401
from tests.drawn_publications import NAMESPACE, ONTOLOGY
from tidegate.ontologies import current
from tidegate.ontologies.ontology import Ontology

# Modules that the tests of a folder share tell as much of what failed as tests do.
pytest.register_assert_rewrite(*(f"tests.{name}" for name in ("cli", "overlay", "patterns", "pipeline", "store")))
pytest_plugins = [
    "tests.parts.called_kernels",
    "tests.parts.left_open",
    "tests.parts.spark",
    "tests.parts.ways_to_match",
]

_DRAWN = Ontology([ONTOLOGY], {"vin": NAMESPACE}, None)
#: The fixtures that run a test once on each database.
_EACH_DATABASE = {"url", "fresh"}


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marker
def pytest_collection_modifyitems(items):
    """Mark what uses the Spark session; on a database server, only contracts are left to ``make test``."""
    for item in items:
        if "spark" in item.fixturenames:
            item.add_marker(pytest.mark.spark)
        on_a_server = item.get_closest_marker("services") and not _EACH_DATABASE.isdisjoint(item.fixturenames)
        if on_a_server and not item.get_closest_marker("contract"):
            item.add_marker(pytest.mark.thorough)


@pytest.fixture(autouse=True)
def _the_ontology_that_conditions_are_drawn_with():
    """Whatever a test or a bench loads, the next test has this one again."""
    with current.use(_DRAWN):
        yield
