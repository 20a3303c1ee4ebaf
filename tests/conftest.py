"""How many examples the laws draw: few by default, many with ``--hypothesis-profile=thorough``."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.strategies import NAMESPACE, ONTOLOGY
from tidegate.ontologies import current
from tidegate.ontologies.ontology import Ontology

_COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck)}
settings.register_profile("quick", max_examples=10, derandomize=True, phases=set(Phase) - {Phase.explain}, **_COMMON)
settings.register_profile("unshrunk", max_examples=50, phases=[Phase.explicit, Phase.generate], **_COMMON)
settings.register_profile("thorough", max_examples=1000, **_COMMON)
settings.load_profile("quick")

pytest_plugins = ["tests.parts.spark"]

_DRAWN = Ontology([ONTOLOGY], {"vin": NAMESPACE}, None)


@pytest.fixture(autouse=True)
def _the_ontology_that_conditions_are_drawn_with():
    """Whatever a test or a bench loads, the next test has this one again."""
    with current.use(_DRAWN):
        yield
