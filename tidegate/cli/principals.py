"""``tidegate principals``: who may subscribe, publish and administer, what each may read, and their tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from tidegate.cli.ontology_option import OwnOntology, Prefixes
from tidegate.cli.registry_argument import Named, config, registry
from tidegate.cli.shapes_option import OwnShapes
from tidegate.errors import SettingError, shown
from tidegate.moments import zoned

if TYPE_CHECKING:
    from tidegate.store.principals import Kept, Principal, Principals, Token
    from tidegate.store.registry import Registry

__all__ = ["principals"]

principals = typer.Typer(name="principals", add_completion=False, rich_markup_mode=None, no_args_is_help=True)
tokens = typer.Typer(name="tokens", add_completion=False, rich_markup_mode=None, no_args_is_help=True)
principals.add_typer(tokens)

_Name = Annotated[str, typer.Argument(metavar="PRINCIPAL", help="The name of a principal.")]
_Json = Annotated[bool, typer.Option("--json", help="As one line of JSON for each.")]


@principals.callback()
def group() -> None:
    """Make principals and say what they may read, and make and revoke their tokens.

    \b
    Example:
      tidegate principals put registry.db ann --read "source LIKE 'valley%'"
    """


@tokens.callback()
def group_of_tokens() -> None:
    """Make, list and revoke tokens, with which applications say who they are.

    \b
    Example:
      tidegate principals tokens make registry.db ann --role subscriber
    """


@contextmanager
def _opened(place: str, create: bool = False) -> Iterator[tuple[Registry, Principals]]:
    from tidegate.store.principals import Principals

    with registry(place, create=create) as found, Principals(found) as inside:
        yield found, inside


# --- principals -----------------------------------------------------------------------------------------------------


@principals.command("list")
def list_(place: Named, as_json: _Json = False) -> None:
    """List the principals of a registry, by name, with what each may read, its quotas, and whose JWTs speak of it.

    \b
    Example:
      tidegate principals list registry.db
    """
    with _opened(place) as (found, inside):
        for one in inside.all():
            typer.echo(_json(_facts(one, found)) if as_json else _described(one))


@principals.command()
def show(place: Named, name: _Name, as_json: _Json = False) -> None:
    """Show a principal: what it may read, its quotas, since which version it is registered, and its tokens.

    \b
    Example:
      tidegate principals show registry.db ann
    """
    with _opened(place) as (found, inside):
        one, its = inside.principal(name), inside.tokens(name)
        if as_json:
            typer.echo(_json(_facts(one, found) | {"tokens": [_token_facts(token) for token in its]}))
            return
        typer.echo(_described(one))
        since, count = found.registered(name), len(found.listing(name))
        typer.echo(
            "not registered" if since is None else f"registered since version {since:,}, {count:,} subscriptions"
        )
        for token in its:
            typer.echo(_token_described(token))


@principals.command()
def put(
    place: Named,
    name: _Name,
    read: Annotated[str | None, typer.Option(help="What it may read: a filter in CQL2, or in CQL2-JSON.")] = None,
    everything: Annotated[bool, typer.Option("--everything", help="Let it read everything.")] = False,
    quota: Annotated[
        list[str] | None, typer.Option(help="A limit, as NAME=NUMBER, or NAME=none; may be given several times.")
    ] = None,
    issuer: Annotated[
        str | None, typer.Option(help="The issuer whose JWTs may speak of it; 'none' if none may.")
    ] = None,
    shapes: OwnShapes = None,
    ontology: OwnOntology = None,
    prefix: Prefixes = None,
) -> None:
    """Make a principal, or change what it may read, its quotas and its issuer. What no option names stays as it is.

    What it may read is joined to all its subscriptions. If that changes, these are made anew at the same moment, in
    pipelines that are running, too, and patterns among them begin anew.

    \b
    Example:
      tidegate principals put registry.db ann --read "source LIKE 'valley%'" --quota subscriptions=1000
    """
    if read is not None and everything:
        raise SettingError("--read or --everything", "both")
    pipeline, limits, before = config(place), _limits(quota), None
    with (
        pipeline.shapes.used() if pipeline else nullcontext(),
        pipeline.ontology.used() if pipeline and not ontology else nullcontext(),
        _opened(place, create=True) as (found, inside),
    ):
        with suppress(SettingError):  # there is none of this name yet
            before = inside.principal(name)
        wanted = _expression(read) if read is not None else before.read if before and not everything else None
        kept = {**(before.quotas if before else {}), **limits}
        quotas = {what: limit for what, limit in kept.items() if limit is not None}
        keep: list[Kept] = ["issuer"] if issuer is None else []
        if before is not None and before.issuer is not None and read is None and not everything:
            keep.append("read")  # saying it again would be a newer word than that of its issuer
        one = inside.put(name, read=wanted, quotas=quotas, issuer=None if issuer == "none" else issuer, keep=keep)
        typer.echo(f"{_described(one)}; version {found.version:,}")


@principals.command()
def remove(place: Named, name: _Name) -> None:
    """Remove a principal with its tokens and webhooks. Its subscriptions go on with what it might read; `unsubscribe`
    ends them.

    \b
    Example:
      tidegate principals remove registry.db ann
    """
    with _opened(place) as (_, inside):
        inside.remove(name)
        typer.echo(f"{name} is removed")


def _expression(read: str) -> Any:
    if not read.lstrip().startswith("{"):
        return read
    try:
        return orjson.loads(read)
    except orjson.JSONDecodeError as wrong:
        raise SettingError("CQL2-JSON as --read", f"{shown(read)}, where {wrong.msg}") from None


def _limits(given: Sequence[str] | None) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for one in given or ():
        name, _, number = one.partition("=")
        try:
            found[name] = None if number == "none" else float(number) if "." in number else int(number)
        except ValueError:
            raise SettingError("--quota as NAME=NUMBER or NAME=none", shown(one)) from None
    return found


def _described(one: Principal) -> str:
    reads = "everything" if one.read is None else _text(one.read)
    quotas = "".join(f", {name} {number:,}" for name, number in one.quotas.items())
    issuer = "" if one.issuer is None else f", of the issuer {one.issuer}"
    return f"{one.name} reads {reads}{quotas}{issuer}"


def _text(read: object) -> str:
    return read if isinstance(read, str) else _json(read)


def _facts(one: Principal, found: Registry) -> dict[str, Any]:
    return {
        "name": one.name,
        "read": one.read,
        "quotas": dict(one.quotas),
        "created": one.created,
        "issuer": one.issuer,
        "registered": found.registered(one.name),
    }


# --- tokens ---------------------------------------------------------------------------------------------------------


@tokens.command()
def make(
    place: Named,
    name: _Name,
    role: Annotated[list[str], typer.Option(help="subscriber, publisher, administrator; may be given several times.")],
    source: Annotated[
        list[str] | None,
        typer.Option(
            help="A pattern of sources that it may publish as; may be given several times. Without it, any source."
        ),
    ] = None,
    read: Annotated[str | None, typer.Option(help="What the principal may read, if nothing was said yet.")] = None,
    expires: Annotated[str | None, typer.Option(help="Until when the token holds (ISO 8601).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The id and the secret as one line of JSON.")] = False,
) -> None:
    """Make a token, and its principal if there is none. The secret is printed, this once, and nothing else with it.

    \b
    Example:
      tidegate principals tokens make registry.db ann --role subscriber --role publisher --source "z*"
    """
    until = None if expires is None else zoned(expires, "the expiry of a token", "--expires", SettingError)
    wanted = None if read is None else _expression(read)
    with _opened(place, create=True) as (_, inside):
        made = inside.make_token(name, role, sources=source or None, read=wanted, expires=until)
    typer.echo(_json({"id": made.id, "token": made.secret}) if as_json else made.secret)
    if not as_json:
        typer.echo(f"token {made.id} of {name} is made; its secret is not shown again", err=True)


@tokens.command("list")
def list_tokens(
    place: Named,
    name: Annotated[str | None, typer.Argument(metavar="[PRINCIPAL]", help="Only the tokens of this one.")] = None,
    as_json: _Json = False,
) -> None:
    """List tokens: whose they are, what they allow, and when they were last used; never their secrets.

    \b
    Example:
      tidegate principals tokens list registry.db ann
    """
    with _opened(place) as (_, inside):
        for token in inside.tokens(name):
            typer.echo(_json(_token_facts(token)) if as_json else _token_described(token))


@tokens.command()
def revoke(
    place: Named, ids: Annotated[list[str], typer.Argument(metavar="ID…", help="The ids of tokens, not their secrets.")]
) -> None:
    """Revoke tokens: nobody holds their secrets from now on.

    \b
    Example:
      tidegate principals tokens revoke registry.db 4f1c09aa83d2b7e6
    """
    with _opened(place) as (_, inside):
        for id in ids:
            inside.revoke(id)
            typer.echo(f"token {id} is revoked")


def _token_facts(token: Token) -> dict[str, Any]:
    return token._asdict()


def _token_described(token: Token) -> str:
    sources = "" if token.sources is None else f" as {', '.join(token.sources)}"
    ends = "" if token.expires is None else f", until {token.expires:%Y-%m-%d %H:%M}"
    used = "not used yet" if token.used is None else f"last used {token.used:%Y-%m-%d %H:%M}"
    return f"{token.id}  {token.principal}: {', '.join(token.roles)}{sources}{ends}, {used}"


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
