"""How many examples the laws draw: the three profiles of hypothesis, and the one place where a test asks for its share.

``make fast`` draws few and always the same, ``make test`` draws anew each time and prints how to draw what failed
again, and ``make thorough`` draws many: a law has no twin that is longer.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, settings

#: The examples of a test that does not say how many it needs, with each profile.
_FAST, _TEST, _THOROUGH = 5, 10, 40

_COMMON: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck), "print_blob": True}
_QUICKLY = set(Phase) - {Phase.explain}
settings.register_profile("fast", max_examples=_FAST, derandomize=True, phases=_QUICKLY, **_COMMON)
settings.register_profile("test", max_examples=_TEST, phases=_QUICKLY, **_COMMON)
settings.register_profile("thorough", max_examples=_THOROUGH, **_COMMON)
settings.load_profile("fast")


def examples(count: int, **more: Any) -> settings:
    """A decorator for a law that draws ``count`` examples in ``make test``, and fewer or more with other profiles."""
    return settings(max_examples=max(1, count * settings.default.max_examples // _TEST), **more)
