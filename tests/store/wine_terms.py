"""Ontologies of wines, expressions with their terms, and what these mean."""

from __future__ import annotations

import tidegate as tg
from tidegate.store import Registry

RED = "isA(wine, 'w:Red')"
WHITE = {"op": "isA", "args": [{"property": "wine"}, "w:White"]}
OLD = {"Red": ["merlot", "malbec"], "White": ["riesling"]}
NEW = {"Red": ["merlot", "malbec", "syrah"], "White": ["riesling"]}
GONE = {"Red": ["merlot"]}


def wines(where: object) -> set[str]:
    """Those that an expression of plain CQL2 is true of."""
    assert "isA" not in str(where)
    known = ("merlot", "malbec", "syrah", "riesling")
    engine = tg.Engine([tg.Subscription("s", "ann", where)])
    return {name for name in known if engine.explain("s", wine(name)).held}


def wine(name: str) -> tg.Publication:
    return tg.Publication(name, "cellar", tg.model.moment(0), {"wine": f"w:{name}", "price": 9.0})


def meant(registry: Registry, version: int) -> dict[str, set[str]]:
    """What the subscriptions that were active at a version meant."""
    rows = [row for row in registry.rows(0, version) if row.until is None or row.until > version]
    found = {row.id: wines(row.meant.where) for row in rows}
    assert len(found) == len(rows)
    return found
