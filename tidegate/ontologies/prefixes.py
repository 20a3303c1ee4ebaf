"""Prefixed names such as ``vin:Red`` to IRIs and back, with the prefixes that the deployment declares."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidegate.errors import SettingError, shown
from tidegate.ontologies.words import OWN, VOCABULARY

__all__ = ["Prefixes"]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*|")
_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|\\^`]*")
#: An IRI that begins so is a full one, so these cannot be prefixes.
_SCHEMES = ("http", "https", "urn", "file")


class Prefixes:
    """Which namespace a prefix stands for. Those of RDF, RDFS, OWL and XML Schema are always there."""

    def __init__(self, declared: Mapping[str, str] | None = None) -> None:
        if declared is not None and not isinstance(declared, Mapping):
            raise SettingError("prefixes such as {'vin': 'http://…#'}", shown(declared))
        for name, namespace in (declared or {}).items():
            if not isinstance(name, str) or not _NAME.fullmatch(name) or name in _SCHEMES:
                raise SettingError("a prefix such as 'vin', without its colon", shown(name))
            if not isinstance(namespace, str) or not _IRI.fullmatch(namespace):
                raise SettingError("an IRI such as 'http://…#'", shown(namespace), f"prefix {name}")
        self.namespaces: dict[str, str] = {**VOCABULARY, **(declared or {})}

    def iri(self, text: str) -> str | None:
        """The IRI that a text means, in angle brackets, in full or with a prefix; None where no prefix is declared."""
        if text.startswith("<") and text.endswith(">"):
            text = text[1:-1]
            return text if _IRI.fullmatch(text) else None
        prefix, colon, rest = text.partition(":")
        if colon and prefix in self.namespaces and not rest.startswith("//"):
            return self.namespaces[prefix] + rest
        return text if prefix in _SCHEMES or rest.startswith("//") else None

    def names(self, iri: str) -> list[str]:
        """The prefixed names of an IRI, one for each namespace that it lies in."""
        return [
            f"{name}:{iri[len(namespace) :]}"
            for name, namespace in self.namespaces.items()
            if iri.startswith(namespace)
        ]

    def shown(self, iri: str) -> str:
        """How a person would write it: the shortest name, or else the IRI."""
        if iri.startswith(OWN):
            return "a literal" if iri.startswith(OWN + "literal") else "a node without a name"
        return min(self.names(iri), key=len, default=f"<{iri}>")
