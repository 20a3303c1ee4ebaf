"""``tidegate ontology``: what an ontology has, what an operator means with it, and new versions for registries.

``tidegate.ontologies`` does the reasoning; here are only the commands, their options and how answers are shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tidegate.cli.ontology_option import loaded, prefixes_of
from tidegate.cli.registry_argument import config, registry
from tidegate.errors import SettingError, shown

if TYPE_CHECKING:
    from tidegate.ontologies.ontology import Ontology
    from tidegate.predicates.ontology import Question
    from tidegate.store.ontology_renewal import UnrenewableSubscription

__all__ = ["ontology"]

ontology = typer.Typer(name="ontology", add_completion=False, rich_markup_mode=None, no_args_is_help=True)

_Files = Annotated[
    list[Path], typer.Argument(help="Files that are one ontology together: .rdf, .owl, .ttl, .nt or .jsonld.")
]
_Prefixes = Annotated[
    list[str] | None, typer.Option("--prefix", help="A prefix of terms, as name=IRI; may be given several times.")
]
_Json = Annotated[bool, typer.Option("--json", help="As JSON, for programs.")]


@ontology.callback()
def group() -> None:
    """Look at an ontology, ask it what an operator means, and bring a new version of it to a registry.

    \b
    Example:
      tidegate ontology show wine.rdf food.rdf
    """


# --- show -----------------------------------------------------------------------------------------------------------


@ontology.command()
def show(files: _Files, prefix: _Prefixes = None, as_json: _Json = False) -> None:
    """Show what an ontology has: classes, individuals, properties, prefixes, and imports that are missing.

    A file that cannot be read, and an ontology that contradicts itself, are errors that say where and why. Nothing is
    fetched: what a file imports must be given too.

    \b
    Example:
      tidegate ontology show wine.rdf food.rdf
    """
    from tidegate.ontologies.ontology import Ontology

    declared = prefixes_of(prefix)
    began = perf_counter()
    found = Ontology(files, declared)
    facts = _facts(found, perf_counter() - began)
    if as_json:
        typer.echo(orjson.dumps(facts, option=orjson.OPT_INDENT_2).decode())
        return
    console = _console()
    table = Table.grid(padding=(0, 2))
    for name in ("classes", "individuals", "properties"):
        table.add_row(name, f"{facts[name]:,}")
    table.add_row("triples", f"{facts['stated']:,} in the files, {facts['triples']:,} with what follows")
    table.add_row("closed in", f"{facts['seconds']:.2f} s")
    console.print(table)
    _tell_prefixes(console, facts["prefixes"], "prefixes, for terms in expressions and publications:")
    hints = {name: iri for name, iri in facts["declared"].items() if iri not in facts["prefixes"].values()}
    _tell_prefixes(console, hints, "prefixes that the files have for themselves; to use them, give --prefix:")
    if facts["missing"]:
        console.print("\nimported, and not among the files:", style="yellow")
        for iri in facts["missing"]:
            console.print(f"  {iri}")


def _facts(found: Ontology, seconds: float) -> dict[str, Any]:
    from tidegate.ontologies.words import RDF, RDFS, VOCABULARY, Owl

    def of(*kinds: str) -> set[str]:
        return set().union(*(found.terms("isA", kind) for kind in kinds))

    classes, properties = of(Owl.klass, f"{RDFS}Class"), of(*Owl.properties, f"{RDF}Property")
    return {
        "files": list(found.sources),
        "classes": len(classes),
        "individuals": len(of(*classes)),
        "properties": len(properties),
        "stated": found.stated,
        "triples": len(found),
        "prefixes": {name: iri for name, iri in found.prefixes.namespaces.items() if VOCABULARY.get(name) != iri},
        "declared": {name: iri for name, iri in found.declared.items() if iri not in VOCABULARY.values()},
        "missing": list(found.missing),
        "seconds": round(seconds, 3),
    }


def _tell_prefixes(console: Console, prefixes: dict[str, str], what: str) -> None:
    if prefixes:
        console.print(f"\n{what}")
        table = Table.grid(padding=(0, 2))
        for name, iri in prefixes.items():
            table.add_row(f"  {name}:", iri)
        console.print(table)


# --- ask ------------------------------------------------------------------------------------------------------------


@ontology.command()
def ask(
    files: _Files,
    expression: Annotated[str, typer.Argument(help="CQL2 with isA, equivalent, moreSpecific, lessSpecific, related.")],
    prefix: _Prefixes = None,
    as_json: _Json = False,
) -> None:
    """Show the terms that an operator means: those that an attribute of a publication must have.

    A publication may write them with any prefix that is declared, or in full.

    \b
    Example:
      tidegate ontology ask wine.rdf "isA(wine, 'vin:RedWine')" --prefix vin=http://example.org/wine#
    """
    from tidegate.language import DEFAULT_LIMITS
    from tidegate.model import Subscription
    from tidegate.predicates.ontology import asking
    from tidegate.subscriptions import compile_subscription

    with loaded(files, prefixes_of(prefix)) as found, asking() as asked:
        compile_subscription(Subscription("expression", "ask", expression), DEFAULT_LIMITS)
        answers = [_answer(found, question) for question in asked]
    if not answers:
        raise SettingError(
            "an expression with isA, equivalent, moreSpecific, lessSpecific or related", shown(expression)
        )
    if as_json:
        typer.echo(orjson.dumps(answers, option=orjson.OPT_INDENT_2).decode())
        return
    console = _console()
    for number, answer in enumerate(answers):
        if number:
            console.print()
        many = "1 term" if len(answer["terms"]) == 1 else f"{len(answer['terms']):,} terms"
        console.print(Text.assemble((f"{answer['operator']} {' '.join(answer['about'])}", "bold"), f": {many}"))
        for term in answer["terms"]:
            console.print(f"  {term['name']}", markup=False)


def _answer(found: Ontology, question: Question) -> dict[str, Any]:
    about = [found.iri(text) or text for text in question.about]
    terms = [{"name": found.prefixes.shown(iri), "iri": iri} for iri in found.terms(question.relation, *about)]
    by_name = sorted(terms, key=lambda term: term["name"])
    return {"operator": question.relation, "about": list(question.about), "terms": by_name}


# --- load -----------------------------------------------------------------------------------------------------------


@ontology.command()
def load(
    place: Annotated[
        str,
        typer.Option(
            "--registry", metavar="REGISTRY", help="A registry (a path or a database URL), or a CONFIG file (.toml)."
        ),
    ],
    files: Annotated[
        list[Path] | None, typer.Argument(help="The new ontology; without files, the one that a CONFIG file names.")
    ] = None,
    prefix: _Prefixes = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Subscriptions whose terms have gone keep the meaning that they had.")
    ] = False,
    as_json: _Json = False,
) -> None:
    """Give the subscriptions of a registry the meaning that an ontology gives to what they asked.

    Those whose meaning changes are ended and made anew in one transaction, under the same ids; patterns among them
    begin anew. What appears after this command has returned is matched with the new meaning, also in pipelines that
    are running. If a subscription names a term that the ontology does not have, nothing changes, unless --keep is
    given.

    \b
    Example:
      tidegate ontology load wine.rdf food.rdf --prefix vin=http://example.org/wine# --registry registry.db
    """
    lost: list[UnrenewableSubscription] = []
    with _known(place, files or [], prefix), registry(place) as target:
        renewed = target.renew(lost.append if keep else None)
        facts = {"renewed": renewed, "subscriptions": len(target), "version": target.version}
    if as_json:
        kept = [one._asdict() for one in lost]
        typer.echo(orjson.dumps(facts | {"kept": kept}, option=orjson.OPT_INDENT_2).decode())
        return
    for one in lost:
        typer.echo(f"warning: subscription {one} keeps the meaning that it had", err=True)
    many = "subscription has" if renewed == 1 else "subscriptions have"
    typer.echo(f"{renewed:,} {many} a new meaning; version {facts['version']:,}, {facts['subscriptions']:,} in all")


@contextmanager
def _known(place: str, files: list[Path], prefix: list[str] | None) -> Iterator[None]:
    """Load the ontology of the files or, without files, of the pipeline into this process while the context lasts."""
    pipeline, prefixes = config(place), prefixes_of(prefix)
    named = pipeline.ontology if pipeline else None
    if not files:
        if named is None or not named.files:
            raise SettingError("files of an ontology, or a CONFIG file that has some in its section [ontology]", "none")
        files = list(map(Path, named.files))
    with (
        pipeline.shapes.used() if pipeline else nullcontext(),
        loaded(files, {**((named and named.prefixes) or {}), **prefixes}),
    ):
        yield


def _console() -> Console:
    return Console(highlight=False, soft_wrap=True)
