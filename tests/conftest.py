"""How many examples the laws draw: few by default, many with ``--hypothesis-profile=thorough``."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

_CHECKS = list(HealthCheck)
settings.register_profile("quick", deadline=None, max_examples=25, suppress_health_check=_CHECKS, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=1000, suppress_health_check=_CHECKS)
settings.load_profile("quick")
