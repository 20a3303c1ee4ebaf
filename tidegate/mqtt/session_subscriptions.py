"""What the session of the bridge at the MQTT broker is subscribed to, over restarts: by which ids messages come, which
of several copies of a message counts, and what is to be subscribed to, fetched or given up.

A message that matches several topic filters comes once for each; the copy of the filter whose rule counts is taken. The
others may be dropped only if that copy comes as well. It does if its filter was there before the others, as in a
session that began with this list, since filters are subscribed to in their order. To a session that is there filters
are added later; what was sent before then lies in its queue, without that copy. So of those all copies are taken until
one of their own is acknowledged, and with it all that lay there: twice rather than never. Has no connection.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

from tidegate import checked_json
from tidegate.runs.mqtt_section import MqttSection

__all__ = ["SessionSubscriptions"]

_NAME, _FORMAT = "mqtt-session.json", 1
#: Numbers of filters: each has two ids, of 28 bits and not 0.
_NUMBERS = (1 << 27) - 1


class SessionSubscriptions:
    """The subscriptions of a section. ``directory`` keeps what is known of the session of ``client_id``: its filters,
    of each whether all copies of its own come, and whether what the MQTT broker had stored was fetched.
    """

    def __init__(self, section: MqttSection, directory: Path, client_id: str) -> None:
        self.requests, self.publications = f"{section.topic('requests')}/+", f"{section.topic('publications')}/#"
        rules = [one.topic.topic_filter for one in section.rules]
        self.topic_filters = list(dict.fromkeys([self.requests, self.publications, *rules]))
        """What to subscribe to, in this order."""
        self._numbers = _numbers_of(self.topic_filters)
        self._file, self._whose = directory / _NAME, f"{client_id} at {section.address}"
        self._known, self._proven, self._fetched = set[str](), set[str](), set[str]()
        self._is_new = False
        self._read()

    # --- ids --------------------------------------------------------------------------------------------------------

    def stored_id(self, topic_filter: str) -> int:
        """The id of the subscription to a topic filter by which comes what the MQTT broker had stored before."""
        return 2 * self._numbers[topic_filter] + 1

    def live_id(self, topic_filter: str) -> int:
        """The id of the one by which everything else comes."""
        return 2 * self._numbers[topic_filter] + 2

    def is_copy(self, topic_filter: str, ids: Collection[int] | None) -> bool:
        """Whether a message that came with such ids is a copy of one that comes by this filter, too."""
        if ids is None or topic_filter not in self._proven:
            return False
        return self.live_id(topic_filter) not in ids and self.stored_id(topic_filter) not in ids

    def proof(self, topic_filter: str, ids: Collection[int] | None) -> str:
        """The filter, if a message with such ids will be its first own one; else ""."""
        is_first = ids is not None and topic_filter not in self._proven and self.live_id(topic_filter) in ids
        return topic_filter if is_first else ""

    def prove(self, topic_filter: str) -> None:
        """All that came before an own message of a filter is acknowledged, and so is that one."""
        if topic_filter in self._known:
            self._proven.add(topic_filter)
            self._write()

    # --- a connection -----------------------------------------------------------------------------------------------

    def begin(self, has_session: bool) -> list[str]:
        """A connection to a session that goes on or is new; the topic filters to be given up."""
        self._is_new = not has_session
        if self._is_new:
            self._known, self._proven, self._fetched = set(), set(), set()
        gone = sorted(self._known - set(self.topic_filters))
        self._known |= set(self.topic_filters)
        self._write()
        return gone

    def is_fetched(self, topic_filter: str) -> bool:
        """Whether what the MQTT broker had stored for a filter has come to this session."""
        return topic_filter in self._fetched

    def subscribed(self, topic_filter: str, is_granted: bool) -> None:
        """The MQTT broker has answered to the subscriptions to a filter."""
        if is_granted:
            self._fetched.add(topic_filter)
            if self._is_new:
                self._proven.add(topic_filter)
        else:
            self._proven.discard(topic_filter)
        self._write()

    def removed(self, topic_filter: str) -> None:
        """The session is not subscribed to a filter any more."""
        for filters in (self._known, self._proven, self._fetched):
            filters.discard(topic_filter)
        self._write()

    # --- the file ---------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Of what cannot be read, or is of another session, nothing is known."""
        try:
            facts: dict[str, Any] = checked_json.unpacked(self._file.read_bytes())
            if facts["format"] == _FORMAT and facts["whose"] == self._whose:
                found = [set(facts[name]) for name in ("known", "proven", "fetched")]
                self._known, self._proven, self._fetched = found
        except (OSError, ValueError, KeyError, TypeError):
            pass

    def _write(self) -> None:
        """Put it in place of what is there. A full disk keeps nobody from running: what is there then stays."""
        names = {"known": self._known, "proven": self._proven, "fetched": self._fetched}
        facts = {"format": _FORMAT, "whose": self._whose, **{name: sorted(one) for name, one in names.items()}}
        aside = self._file.with_name(f".{_NAME}")
        with suppress(OSError):
            aside.write_bytes(checked_json.packed(facts))
            os.replace(aside, self._file)


def _numbers_of(topic_filters: Sequence[str]) -> dict[str, int]:
    """A number of each, which follows from its text and so stays the same in other lists; of two that had the same the
    later one has the next.
    """
    found, taken = dict[str, int](), set[int]()
    for one in topic_filters:
        number = int.from_bytes(blake2b(one.encode(), digest_size=8).digest(), "big") % _NUMBERS
        while number in taken:
            number = (number + 1) % _NUMBERS
        taken.add(number)
        found[one] = number
    return found
