"""What schemathesis needs to know of a broker beside its document: how two forms of bodies are made, expressions that
can be read, and what may rightly be refused.

Loaded by the command of schemathesis (``SCHEMATHESIS_HOOKS``), in a process of its own.
"""

from __future__ import annotations

import json
import re

import pyarrow as pa
import schemathesis
from hypothesis import strategies as st

from tests.gateway.served import TOKEN

#: Codes of errors of form: a request that the document allows is never refused with one of these. What it means (an
#: expression, a time, a number of a queue) no schema can say, and refusals of that have other codes.
_OF_FORM = frozenset({"body", "content_type", "encoding", "headers", "http", "json", "method", "parameter", "path"})
#: What says that a request is too large; schemathesis does not take it for a refusal.
_TOO_LARGE = (413, 431)
_EXPRESSION = re.compile("/(read|where)(/|$)")
#: Who asks; its token is that of the only administrator, which the broker lets nobody revoke.
_SELF = "admin"
_gone = set[str]()
_TEXTS = [
    "n > 1",
    "kind = 'rain' AND n BETWEEN 0 AND 5",
    "s_dwithin(location, POINT(7 46), 100)",
    "n IN (1, 2)",
    "NOT n = 1",
]

_publications = st.fixed_dictionaries(
    {"source": st.text(min_size=1, max_size=3)},
    optional={"id": st.text(min_size=1, max_size=3), "n": st.integers(), "kind": st.text(max_size=3) | st.floats()},
)
_subscriptions = st.fixed_dictionaries(
    {"id": st.text(min_size=1, max_size=3), "where": st.sampled_from(_TEXTS) | st.text(max_size=9)},
    optional={"initial": st.booleans(), "fields": st.lists(st.text(max_size=3), max_size=2), "more": st.none()},
)


def _lines(items):
    return st.lists(items, min_size=1, max_size=4).map(lambda some: "\n".join(map(json.dumps, some)).encode())


@st.composite
def _arrow(draw):
    count = draw(st.integers(1, 3))
    ids = draw(st.lists(st.text(min_size=1, max_size=3), min_size=count, max_size=count))
    numbers = draw(st.lists(st.integers(-9, 9), min_size=count, max_size=count))
    batch = pa.record_batch({"source": ["s"] * count, "id": ids, "n": numbers})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue().to_pybytes()


schemathesis.openapi.format("cql2-text", st.sampled_from(_TEXTS))
schemathesis.openapi.media_type("application/x-ndjson", _lines(_publications | _subscriptions))
schemathesis.openapi.media_type("application/vnd.apache.arrow.stream", _arrow())


@schemathesis.hook
def map_query(context, query):
    """Wait for nothing."""
    if query and isinstance(wait := query.get("wait"), (int, float)) and 0 < wait <= 60:
        query["wait"] = 0.001
    return query


@schemathesis.hook
def filter_case(context, case):
    """Keep one's own token and rights, so that all that follows is still answered. And an ``id`` in the query of a list
    stands alone, which OpenAPI cannot say of parameters.
    """
    if case.operation.method == "get" and "id" in case.query and len(case.query) > 1:
        return False
    if case.operation.label == "POST /v1/tokens" and isinstance(case.body, dict):
        roles = case.body.get("roles")
        return not isinstance(roles, list) or "administrator" not in roles
    return case.operation.label != "PUT /v1/principals/{name}" or case.path_parameters.get("name") != _SELF


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """Whether a failure is one."""
    kind, said = type(failure).__name__, response.json() if response.status_code >= 400 else {}
    if kind == "RejectedPositiveData" and response.status_code in (400, 412, 413, 422):
        is_position = said.get("at") == "after"  # that it is the ``next`` of a page no schema can say
        return said.get("code") in _OF_FORM and not is_position
    if kind == "AcceptedNegativeData":
        return not (response.status_code in _TOO_LARGE or _is_refused_in_part(response) or _is_expression(failure))
    if kind == "IgnoredAuth" and "got `429 " in failure.message:
        return False  # so many wrong tokens came that this one was not even looked for
    return kind != "EnsureResourceAvailability" or not _gone.intersection(_ids_of(case))


def _is_refused_in_part(response):
    """Whether what was wrong was refused, beside others that were taken."""
    said = response.json()
    return isinstance(said, dict) and bool(said.get("refused"))


def _is_expression(failure):
    """Whether all that is wrong is a text in the place of CQL2 that is none of those above: it may be one."""
    wrong = re.findall(r"violates (`\w+`) at (\S+)", failure.message)
    return bool(wrong) and all(what == "`format`" and _EXPRESSION.search(place) for what, place in wrong)


def _ids_of(case):
    """The ids that a request names, in the path or in the query."""
    return {str(value) for value in (*case.path_parameters.values(), case.query.get("id", ""))} - {""}


@schemathesis.check
def the_token_holds(ctx, response, case):
    """A run that is answered 401 tries nothing. Notes by the way what was deleted: schemathesis does not know that
    ``DELETE /v1/announcements?id=…`` and ``DELETE /v1/announcements/{id}`` are the same request.
    """
    if case.method == "DELETE" and response.status_code == 204:
        _gone.update(_ids_of(case))
    given = response.request.headers.get("Authorization")
    assert response.status_code != 401 or given != f"Bearer {TOKEN}", "the token of the run was refused"
