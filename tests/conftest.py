"""How many examples the laws draw: few by default, many with ``--hypothesis-profile=thorough``."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

_COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck)}
settings.register_profile("quick", max_examples=10, derandomize=True, phases=set(Phase) - {Phase.explain}, **_COMMON)
settings.register_profile("unshrunk", max_examples=50, phases=[Phase.explicit, Phase.generate], **_COMMON)
settings.register_profile("thorough", max_examples=1000, **_COMMON)
settings.load_profile("quick")

pytest_plugins = ["tests.parts.spark"]
