"""The error tree. Every mistake a user can make raises one of these, never an exception of a library below.

A message has one grammar: *expected …; got …; at …*. Each leaf is also a built-in exception, so code that knows
nothing of Tidegate can still catch it.
"""

from __future__ import annotations

__all__ = [
    "CATALOGUE",
    "AccessError",
    "BrokerError",
    "ConflictError",
    "LimitError",
    "MessageError",
    "OntologyError",
    "ParseError",
    "PipelineError",
    "PublicationError",
    "RefusedError",
    "SessionError",
    "SettingError",
    "SnapshotError",
    "StoreError",
    "SubscriptionError",
    "SubscriptionWarning",
    "TidegateError",
    "TypeMismatch",
    "UnknownFunction",
    "UnknownSubscription",
]

_SHOWN = 80


def shown(value: object) -> str:
    """A value as it appears in a message: its repr, cut so that a 10 MB string stays readable."""
    try:
        text = repr(value[: 2 * _SHOWN]) if isinstance(value, str | bytes) else repr(value)
    except Exception as error:  # an integer of too many digits, a list nested too deep, an object of the user's own
        return f"a value of type {type(value).__name__} that cannot be shown ({type(error).__name__})"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({type(value).__name__})"


class TidegateError(Exception):
    """The root: ``expected`` what would have been right, ``got`` what was there, ``at`` where."""

    code = "tidegate"

    def __init__(self, expected: str, got: str, at: str = "") -> None:
        self.expected, self.got, self.at = expected, got, at
        super().__init__(expected, got, at)

    def __str__(self) -> str:
        return f"expected {self.expected}; got {self.got}" + (f"; at {self.at}" if self.at else "")


class ParseError(TidegateError, ValueError):
    """The text or JSON is no CQL2 expression. ``caret`` shows the spot under the line it is on."""

    code = "parse"

    def __init__(self, expected: str, got: str, at: str = "", caret: str = "") -> None:
        super().__init__(expected, got, at)
        self.caret = caret

    def __str__(self) -> str:
        return super().__str__() + (f"\n{self.caret}" if self.caret else "")


class TypeMismatch(ParseError, TypeError):
    """The expression is well formed but compares or calls with values of the wrong type."""

    code = "type"


class UnknownFunction(ParseError, LookupError):
    """No predicate or pattern family has registered a function of that name."""

    code = "function"


class LimitError(ParseError):
    """The expression is longer, deeper or larger in disjunctive normal form than the settings allow."""

    code = "limit"


class SubscriptionError(TidegateError, ValueError):
    """A subscription cannot be taken: its id is empty or in use, a field has the wrong type, its times are unusable."""

    code = "subscription"


class UnknownSubscription(TidegateError, KeyError):
    """There is no subscription of that id."""

    code = "unknown"

    __str__ = TidegateError.__str__


class PublicationError(TidegateError, ValueError):
    """A publication cannot be taken: wrong types, NaN, infinities, time without a zone."""

    code = "publication"


class SnapshotError(TidegateError, OSError):
    """A directory holds no index snapshot, or one of another version or incomplete."""

    code = "snapshot"

    __str__ = TidegateError.__str__


class StoreError(TidegateError, OSError):
    """A database cannot be opened or does not answer, or what it holds is of another version."""

    code = "store"

    __str__ = TidegateError.__str__


class PipelineError(TidegateError, RuntimeError):
    """Spark cannot start, or a running pipeline has failed; what Spark said, without its stack traces."""

    code = "pipeline"


class SettingError(TidegateError, ValueError):
    """A setting or command-line argument is out of range or names nothing that exists."""

    code = "setting"


class OntologyError(TidegateError, ValueError):
    """An ontology cannot be used: a file cannot be read, is too large, or says what contradicts itself."""

    code = "ontology"


class MessageError(TidegateError, ValueError):
    """A message between nodes of an overlay cannot be taken: no such JSON, kind or version, a field that is wrong."""

    code = "message"


class ConflictError(TidegateError, ValueError):
    """What is to be made is there already and is another: what a principal may read, the secret of a token."""

    code = "conflict"


class SessionError(TidegateError, ValueError):
    """A principal has no session, or its session or a connection of it is in no state for what is asked."""

    code = "session"


class AccessError(TidegateError, PermissionError):
    """A broker does not take the token, or the token does not allow what is asked; ``status`` is that of HTTP."""

    code = "access"
    status: int | None = None

    __str__ = TidegateError.__str__


class RefusedError(TidegateError, ValueError):
    """A broker refuses a request: there is nothing of that name, it is too large, it is none of the API."""

    code = "refused"
    status: int | None = None


class BrokerError(TidegateError, ConnectionError):
    """A broker cannot be reached, has no room or no time for a while, or gives an answer that is none of the API."""

    code = "broker"
    status: int | None = None

    __str__ = TidegateError.__str__


class SubscriptionWarning(UserWarning):
    """A subscription was taken that can hardly be meant as it is written."""


CATALOGUE: dict[str, type[TidegateError]] = {
    error.code: error
    for error in (
        ParseError,
        TypeMismatch,
        UnknownFunction,
        LimitError,
        SubscriptionError,
        UnknownSubscription,
        PublicationError,
        SnapshotError,
        StoreError,
        PipelineError,
        SettingError,
        OntologyError,
        MessageError,
        ConflictError,
        SessionError,
        AccessError,
        RefusedError,
        BrokerError,
    )
}
