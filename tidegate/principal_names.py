"""The names of principals, who subscribe, publish and administer, and what a subscription is called beside others.

Two principals may have a subscription of the same id. So where subscriptions of several meet, in a registry and what is
matched with it, one is called ``principal/id``: a name has no slash, so the first slash ends it.
"""

from __future__ import annotations

import re

__all__ = ["EXPECTED", "PATTERN", "is_principal_name", "registered_id"]

PATTERN = r"(?!\.{1,2}$)[A-Za-z0-9._@-]{1,128}"
_NAME = re.compile(PATTERN)
#: What an error says was expected.
EXPECTED = "the name of a principal, which is 1 to 128 of the characters A-Z a-z 0-9 . _ @ - and not . or .."


def is_principal_name(name: object) -> bool:
    """Whether a principal may have this name."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def registered_id(subscriber: str, id: str) -> str:
    """What a registry calls the subscription that a subscriber calls ``id``."""
    return f"{subscriber}/{id}"
