"""The options --ontology and --prefix of commands that compile expressions: an ontology for this call alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.errors import SettingError, shown

if TYPE_CHECKING:
    from tidegate.ontologies.ontology import Ontology

__all__ = ["OwnOntology", "Prefixes", "loaded", "prefixes_of"]


def prefixes_of(given: Sequence[str] | None) -> dict[str, str]:
    """Prefixes by name, of texts ``name=IRI``."""
    found: dict[str, str] = {}
    for one in given or ():
        name, equals, iri = one.partition("=")
        if not equals or not iri:
            raise SettingError("--prefix as name=IRI", shown(one))
        if found.setdefault(name, iri) != iri:
            raise SettingError("each --prefix once", f"{shown(name)} as {shown(found[name])} and as {shown(iri)}")
    return found


@contextmanager
def loaded(files: Sequence[Path], prefixes: Mapping[str, str]) -> Iterator[Ontology]:
    """Load an ontology into this process while the context lasts."""
    from tidegate.ontologies.current import load, use

    with use(None):
        yield load(*files, prefixes=prefixes)


def _load(context: typer.Context, files: list[Path] | None) -> list[Path] | None:
    """Callback of --ontology: load it before the command compiles anything, until the command has ended.

    The option --prefix is eager, so typer has read it before.
    """
    given = context.params.get("prefix")
    if given and not files:
        raise SettingError("--ontology beside --prefix", "--prefix alone")
    if files:
        context.with_resource(loaded(files, prefixes_of(given)))
    return files


OwnOntology = Annotated[
    list[Path] | None,
    typer.Option(
        "--ontology",
        help="An ontology whose terms expressions name: .rdf, .ttl, .nt or .jsonld; may be given several times.",
        callback=_load,
    ),
]
#: The parameter must be called ``prefix``, because ``_load`` looks it up by this name.
Prefixes = Annotated[
    list[str] | None,
    typer.Option("--prefix", help="A prefix of its terms, as name=IRI; may be given several times.", is_eager=True),
]
