"""The document of the HTTP API in OpenAPI 3.1, made from the routes, so that it says what is served.

Schemas come from the types of msgspec that read and write bodies. Knows no request by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from tidegate import __version__
from tidegate.gateway.parameters import Parameter
from tidegate.gateway.problems import PROBLEM_TYPE
from tidegate.gateway.routes import BodyForm, Route

__all__ = ["openapi"]

_REF = "#/components/schemas/{name}"
_PROBLEM = {
    "type": "object",
    "description": "Problem details (RFC 9457).",
    "required": ["type", "title", "status", "detail", "code", "expected", "got"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string", "description": "What is wrong, in one word that programs may know."},
        "expected": {"type": "string"},
        "got": {"type": "string"},
        "at": {"type": "string"},
        "caret": {"type": "string"},
    },
}
_DESCRIPTION = """Standing subscriptions over streams of sensor readings, events and logs.

Times are RFC 3339 with an offset, and come out in UTC. Errors are problem details with a `code`."""


def openapi(routes: Iterable[Route]) -> dict[str, Any]:
    """The document."""
    every = list(routes)
    forms = [form for route in every for form in (*route.body, *_answered(route))]
    types = list({form.type: None for form in forms if form.type is not None})
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    of_type = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in every:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, of_type)
    for route in every:
        if route.ids_in_query:
            _add_query(paths, route, of_type)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tidegate",
            "version": __version__,
            "description": _DESCRIPTION,
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": {**components, "Problem": _PROBLEM},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _answered(route: Route) -> Sequence[BodyForm]:
    return [form for forms in route.answers.values() for form in forms]


def _operation(route: Route, schemas: Mapping[Any, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": f"{route.handler.__module__.rpartition('.')[2]}_{route.handler.__name__}",
        "summary": route.summary,
        "tags": [_tag(route)],
        "parameters": [_path_parameter(name) for name in route.names] + [_query_parameter(one) for one in route.query],
        "responses": {
            **{str(status): _answer(status, forms, schemas) for status, forms in route.answers.items()},
            "default": {"description": "A problem.", "content": _problem()},
        },
        "security": [] if route.role is None else [{"token": []}],
    }
    if route.role not in (None, "any"):
        found["description"] = f"Wants a token with the role {route.role}."
    if route.body:
        found["requestBody"] = {"required": True, "content": _content(route.body, schemas)}
    return found


def _tag(route: Route) -> str:
    return next((part for part in route.segments if part != "v1" and not part.startswith("{")), "service")


def _path_parameter(name: str) -> dict[str, Any]:
    schema = {"type": "string", "minLength": 1}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _query_parameter(one: Parameter, *, required: bool | None = None) -> dict[str, Any]:
    is_required = one.required if required is None else required
    return {
        "name": one.name,
        "in": "query",
        "required": is_required,
        "description": one.description,
        "schema": dict(one.schema),
    }


def _answer(status: int, forms: Sequence[BodyForm], schemas: Mapping[Any, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if forms:
        found["content"] = _content(forms, schemas)
    if status >= 400:
        found["content"] = {**found.get("content", {}), **_problem()}
    return found


def _problem() -> dict[str, Any]:
    return {PROBLEM_TYPE: {"schema": _reference("Problem")}}


def _content(forms: Sequence[BodyForm], schemas: Mapping[Any, Any]) -> dict[str, Any]:
    return {form.media_type: {"schema": _schema(form, schemas)} for form in forms}


def _schema(form: BodyForm, schemas: Mapping[Any, Any]) -> Any:
    if form.type is not None:
        return schemas[form.type]
    return dict(form.schema or {})


def _reference(name: str) -> dict[str, str]:
    return {"$ref": _REF.format(name=name)}


def _add_query(paths: dict[str, dict[str, Any]], route: Route, schemas: Mapping[Any, Any]) -> None:
    """The same request with its ids in the query: an operation of its own, or part of the one that is there."""
    path = "/" + "/".join(segment for segment in route.segments if not segment.startswith("{"))
    there = paths.setdefault(path, {}).get(route.method.lower())
    ids = [Parameter(name, f"The same as `{name}` in the path.", {"type": "string"}) for name in route.names]
    if there is None:
        operation = _operation(route, schemas)
        own = [_query_parameter(one, required=True) for one in ids]
        operation["operationId"] += "_by_query"
        operation["parameters"] = own + [_query_parameter(one) for one in route.query]
        paths[path][route.method.lower()] = operation
        return
    there["parameters"] += [_query_parameter(one) for one in ids]
    for status, forms in route.answers.items():
        said = there["responses"].get(str(status))
        if said is None:
            there["responses"][str(status)] = _answer(status, forms, schemas)
            continue
        for media_type, content in _content(forms, schemas).items():
            before = said.setdefault("content", {}).get(media_type)
            said["content"][media_type] = content if before is None else _either(before, content)


def _either(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    return {"schema": {"anyOf": [one["schema"], other["schema"]]}}
