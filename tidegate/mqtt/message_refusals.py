"""Why a message is refused: in a word, in words, and as the reason of its acknowledgement. Also how such refusals are
logged: the first of each kind, then how many there were, now and then.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from time import monotonic

from tidegate.errors import TidegateError, shown
from tidegate.mqtt.packets import Reason

__all__ = ["MessageRefused", "RefusalLog", "reason_of"]

_LOG = logging.getLogger("tidegate.mqtt")
#: Seconds between two lines about refusals of one kind.
_EVERY = 30.0
#: What is said of a refusal by its code; else that it is ours.
_REASONS = {
    "topic": Reason.TOPIC_NAME_INVALID,
    "source": Reason.NOT_AUTHORIZED,
    **dict.fromkeys(("json", "cloudevents", "senml", "number", "text", "payload"), Reason.PAYLOAD_FORMAT_INVALID),
}


class MessageRefused(TidegateError, ValueError):
    """A message that is no publication."""

    def __init__(self, code: str, expected: str, got: str, at: str = "") -> None:
        super().__init__(expected, got, at)
        self.code = code


def reason_of(code: str) -> int:
    """The reason with which a message is acknowledged that was refused for such a code."""
    return _REASONS.get(code, Reason.REFUSED_HERE)


class RefusalLog:
    """Writes the first refusal of each code, and twice a minute at most the latest one and how many there were."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock, self._quiet_until, self._left_out = clock, dict[str, float](), Counter[str]()

    def note(self, code: str, topic: str, detail: str) -> None:
        now = self._clock()
        if now < self._quiet_until.get(code, float("-inf")):
            self._left_out[code] += 1
            return
        self._quiet_until[code] = now + _EVERY
        more = f" (and {self._left_out.pop(code):,} before)" if self._left_out[code] else ""
        _LOG.warning("refused, %s, from the topic %s: %s%s", code, shown(topic), detail, more)
