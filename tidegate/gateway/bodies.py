"""Reading the body of a request: within a size and a time, decompressed, and within what all bodies may take together.

Gives bytes, or values of a type that msgspec checks. What the bytes mean is for those who ask.
"""

from __future__ import annotations

import asyncio
import gzip
import re
import zlib
from collections.abc import AsyncIterator
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta
from starlette.requests import ClientDisconnect, Request

from tidegate.errors import shown
from tidegate.gateway.deadlines import Deadlines
from tidegate.gateway.problems import RequestError

__all__ = [
    "JSON",
    "LARGE",
    "BodyBudget",
    "Loan",
    "Whole",
    "content_type",
    "decoded",
    "expect_few",
    "read_body",
    "slow_body",
    "whole",
]

T = TypeVar("T")
JSON = "application/json"
#: A whole number that is not negative. For JSON Schema 3.0 is one, and some clients write it so.
Whole = Annotated[int, Meta(ge=0)] | Annotated[float, Meta(ge=0, multiple_of=1)]
#: Larger bodies are decoded in a thread.
LARGE = 64 << 10
#: JSON of many more objects and arrays than publications is none that anybody needs.
_MOST_NESTED = 8
_PLACE = re.compile(r"^(?P<what>.*) - at `(?P<at>.*)`$", re.DOTALL)


class BodyBudget:
    """How many bytes all bodies that are being read may take together. Used by one thread."""

    def __init__(self, most: int) -> None:
        self.most, self.used = most, 0

    def lent(self) -> Loan:
        """A loan for one body, which is given back at the end of a ``with`` statement."""
        return Loan(self)


class Loan:
    """What one body takes of the budget."""

    __slots__ = ("_budget", "size")

    def __init__(self, budget: BodyBudget) -> None:
        self._budget, self.size = budget, 0

    def __enter__(self) -> Loan:
        return self

    def __exit__(self, *_: object) -> None:
        self.hold(0)

    def hold(self, size: int) -> None:
        """Take or give back so many bytes that there are ``size``, or refuse that."""
        if size > self.size:
            self.take(size - self.size)
        else:
            self._budget.used -= self.size - size
            self.size = size

    def take(self, count: int) -> None:
        """Take more bytes, or refuse the body."""
        if self._budget.used + count > self._budget.most:
            got = "one beyond that"
            raise RequestError(503, "busy", f"at most {self._budget.most:,} bytes of bodies at once", got)
        self._budget.used += count
        self.size += count


def content_type(request: Request) -> str:
    """The media type of the body, in small letters and without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def read_body(request: Request, loan: Loan, most: int, deadlines: Deadlines, seconds: float) -> bytes:
    """The body, decompressed: at most ``most`` bytes of it, within so many seconds; 0 for any time."""
    length = request.headers.get("content-length")
    if length is not None and length.isdecimal() and int(length) > most:
        raise _too_large(most)
    try:
        with deadlines.within(seconds):
            return await _received(request, loan, most)
    except TimeoutError:
        if not seconds:
            raise  # it is that of the whole request
        raise slow_body(seconds) from None
    except ClientDisconnect:
        raise RequestError(400, "body", "a whole body", "a connection that was closed before") from None


def slow_body(seconds: float) -> RequestError:
    """The body did not come in time."""
    headers = {"Connection": "close"}  # the rest of it is not waited for
    return RequestError(408, "slow", f"a body within {seconds:g} seconds", "one that took longer", headers=headers)


async def _received(request: Request, loan: Loan, most: int) -> bytes:
    chunks, size, has_more = list[bytes](), 0, True
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        async for chunk in _decompressed(request, encoding, most):
            size = _taken(chunk, size, loan, most)
            chunks.append(chunk)
        return b"".join(chunks)
    while has_more:  # not ``request.stream``: event loops take a while to note each generator
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk, has_more = message.get("body", b""), message.get("more_body", False)
        size = _taken(chunk, size, loan, most)
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _taken(chunk: bytes, size: int, loan: Loan, most: int) -> int:
    """The size of a body with one chunk more, if it may have that."""
    size += len(chunk)
    if size > most:
        raise _too_large(most)
    loan.take(len(chunk))
    return size


async def _decompressed(request: Request, encoding: str, most: int) -> AsyncIterator[bytes]:
    if encoding not in ("gzip", "deflate"):
        raise RequestError(415, "encoding", "gzip or deflate as Content-Encoding", shown(encoding))
    stream, received = zlib.decompressobj(wbits=31 if encoding == "gzip" else 15), 0
    try:
        async for chunk in request.stream():
            rest, received = chunk, received + len(chunk)
            if received > most:
                raise _too_large(most)
            while rest and not stream.eof:
                yield stream.decompress(rest, min(most + 1, 1 << 16))
                rest = stream.unconsumed_tail
                await asyncio.sleep(0)  # a few bytes may become many, and others have their turn between them
            if rest or stream.unused_data:  # publications, perhaps, that nobody must take for accepted
                expected = f"a body that is compressed with {encoding}, as one member"
                raise RequestError(400, "body", expected, "more behind its end")
        yield stream.flush()
    except (zlib.error, gzip.BadGzipFile, EOFError) as wrong:
        raise RequestError(400, "body", f"a body that is compressed with {encoding}", str(wrong)) from None
    if not stream.eof:
        raise RequestError(400, "body", f"a body that is compressed with {encoding}", "one that ends early")


def _too_large(most: int) -> RequestError:
    return RequestError(413, "too_large", f"a body of at most {most:,} bytes", "a larger one")


def expect_few(body: bytes | str, most: int) -> None:
    """Refuse JSON that would become very many objects, before it does; ``most`` is how many publications there may be
    at once.
    """
    if len(body) > LARGE:
        begins = ("{", "[") if isinstance(body, str) else (b"{", b"[")
        if sum(map(body.count, begins)) > _MOST_NESTED * most:  # type: ignore[arg-type]
            raise RequestError(413, "too_large", f"at most {_MOST_NESTED * most:,} objects and arrays", "more")


def decoded(body: bytes | str, kind: type[T]) -> T:
    """The value of a JSON body, whose members are those of ``kind``, a class of msgspec."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as wrong:
        said = _PLACE.match(str(wrong))
        what, at = (said["what"], said["at"].removeprefix("$.")) if said else (str(wrong), "")
        raise RequestError(422, "body", _described(kind), what, at) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as wrong:
        raise RequestError(400, "json", "JSON", str(wrong)) from None
    except RecursionError:
        raise RequestError(400, "json", "JSON that is nested less deeply", "a deeper one") from None


def whole(number: float) -> int:
    """The number that a ``Whole`` is; exactly that, also where a float could not hold it."""
    return int(number)


def _described(kind: Any) -> str:
    fields = getattr(kind, "__struct_encode_fields__", None)
    return f"an object with {', '.join(fields)}" if fields else "a body of the form that the API has"
