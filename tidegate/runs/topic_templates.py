"""Topic filters of MQTT in which braces name levels: ``sensors/+/{source}/no2`` matches as ``sensors/+/+/no2`` does,
and says of a topic what its levels are called. Knows no rule and no connection.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tidegate.errors import SettingError, shown

__all__ = ["TopicTemplate", "check_topic", "topic_template"]

_LONGEST = 65_535
_NAMED = re.compile(r"\{([^{}]+)\}")


class TopicTemplate(NamedTuple):
    """A filter by its levels; ``names`` has what each is called, "" where it is not."""

    levels: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def topic_filter(self) -> str:
        """As a broker of MQTT takes it."""
        return "/".join(self.levels)

    def named(self, topic: str) -> dict[str, str] | None:
        """What the named levels of a topic say; None if the topic does not match."""
        given, levels = topic.split("/"), self.levels
        if topic[:1] == "$" and levels[0] in ("+", "#"):  # those are of the broker of MQTT itself
            return None
        if levels[-1] == "#":
            levels = levels[:-1]
            if len(given) < len(levels):
                return None
        elif len(given) != len(levels):
            return None
        for one, level in zip(given, levels, strict=False):
            if level not in ("+", one):
                return None
        return {name: one for name, one in zip(self.names, given, strict=False) if name}


def topic_template(text: str) -> TopicTemplate:
    """The template that a text is; or an error."""
    levels, names = list[str](), list[str]()
    given = text.split("/")
    for place, level in enumerate(given):
        found = _NAMED.fullmatch(level)
        if found is None and re.search("[{}]", level):
            raise SettingError("a level that is one name in braces, such as {source}", shown(level), "topic")
        if found is not None and found[1] in names:
            raise SettingError("each name once", f"{shown(found[1])} twice", "topic")
        if found is None and ((level != "+" and "+" in level) or (level != "#" and "#" in level)):
            raise SettingError("+ and # as whole levels", shown(level), "topic")
        if level == "#" and place != len(given) - 1:
            raise SettingError("# as the last level", shown(text), "topic")
        levels.append("+" if found is not None else level)
        names.append("" if found is None else found[1])
    made = TopicTemplate(tuple(levels), tuple(names))
    _check_text(made.topic_filter)
    if made.levels[0] == "$share":
        raise SettingError("a topic that is not shared: who is away would take its share with it", shown(text), "topic")
    return made


def check_topic(topic: str) -> str:
    """The topic, if messages may be published to it; or an error."""
    _check_text(topic)
    if re.search("[+#]", topic):
        raise SettingError("a topic without + and #", shown(topic), "topic")
    return topic


def _check_text(text: str) -> None:
    if not text or "\0" in text or len(text.encode(errors="replace")) > _LONGEST:
        raise SettingError(f"a topic of 1 to {_LONGEST:,} bytes", shown(text), "topic")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise SettingError("a topic that UTF-8 can have", shown(text), "topic") from None
