"""The token that a client shows: a text, or what a function gives whose tokens end after a while.

The function is asked when a token is needed first, when a broker takes the last one no more, and for each connection
that is made again. It may be a plain one, which then runs in a thread, or asynchronous. No token is in any text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable, iscoroutinefunction
from typing import TypeAlias

from tidegate.errors import BrokerError, SettingError

__all__ = ["GivenToken", "TokenSource", "checked_token"]

#: What a program may give as token.
GivenToken: TypeAlias = "str | Callable[[], str | Awaitable[str]]"
_AT = "the function that gives the token"


def checked_token(token: object) -> str:
    """A token that can stand in a header."""
    if not isinstance(token, str) or not token or not all(33 <= ord(character) <= 126 for character in token):
        raise SettingError("a token, which is visible ASCII", "none" if not token else "another text")
    return token


class TokenSource:
    """The token of one client, in one event loop. ``timeout`` is how many seconds the function may take."""

    def __init__(self, given: GivenToken, timeout: float) -> None:
        self._given, self._timeout = given, timeout
        self._last = given if isinstance(given, str) else None
        self._turn = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    @property
    def is_renewable(self) -> bool:
        """Whether there may be another token than the last."""
        return not isinstance(self._given, str)

    async def current(self) -> str:
        """The last token; the function is asked if there is none. Who comes while it is asked gets what it gives."""
        if self._last is not None:
            return self._last
        async with self._turn:
            if self._last is None:
                self._last = checked_token(await self._asked())
            return self._last

    def drop(self, token: str | None) -> None:
        """A token does not do any more: the function is to be asked, unless it was since."""
        if self.is_renewable and self._last == token:
            self._last = None

    async def anew(self) -> str:
        """What the function gives now."""
        self.drop(self._last)
        return await self.current()

    async def _asked(self) -> object:
        function = self._given
        assert not isinstance(function, str), "a text is never asked for"
        try:
            async with asyncio.timeout(self._timeout):
                found = await (function() if iscoroutinefunction(function) else asyncio.to_thread(function))
                return await found if isawaitable(found) else found
        except TimeoutError:
            raise BrokerError(f"a token within {self._timeout:g} seconds", "none", _AT) from None
        except Exception as wrong:  # whatever a program does there; what it says may be a secret
            raise BrokerError("a token", f"an error, {type(wrong).__name__}", _AT) from wrong
