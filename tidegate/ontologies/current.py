"""The ontology with which this process compiles expressions: one at a time, replaced as a whole by ``load``."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tidegate.ontologies.ontology import Ontology

__all__ = ["get", "load", "use", "version"]

_log = logging.getLogger("tidegate")
_loading = threading.Lock()
_current: Ontology | None = None


def get() -> Ontology | None:
    """The ontology, if one was loaded."""
    return _current


def version() -> int:
    """Its version, 0 where there is none."""
    return 0 if _current is None else _current.version


def load(
    *sources: str | os.PathLike[str], prefixes: Mapping[str, str] | None = None, format: str | None = None
) -> Ontology:
    """Read and close an ontology and put it in the place of the one before; if that fails the one before stays."""
    global _current
    with _loading:
        found = Ontology(sources, prefixes, format)
        _current = found
    if found.missing:
        _log.warning("imported ontologies that are not loaded: %s", ", ".join(found.missing))
    return found


@contextmanager
def use(ontology: Ontology | None) -> Iterator[None]:
    """Use another ontology, or none, in a ``with`` statement; after it the one before is back, whatever was loaded."""
    global _current
    before, _current = _current, ontology
    try:
        yield
    finally:
        _current = before
