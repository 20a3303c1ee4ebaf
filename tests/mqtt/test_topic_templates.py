"""Topic filters with names, against an oracle in obvious steps and against paho."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.client import topic_matches_sub

from tests.parts.profiles import examples
from tidegate.errors import SettingError
from tidegate.runs.topic_templates import check_topic, topic_template

LEVELS = st.sampled_from(["a", "b", "", "$SYS"])
TOPICS = st.lists(LEVELS, min_size=1, max_size=4).map("/".join).filter(bool)


@st.composite
def templates(draw):
    levels = draw(st.lists(LEVELS | st.sampled_from(["+", "{x}", "{y}"]), min_size=1, max_size=4))
    if draw(st.booleans()):
        levels.append("#")
    levels = [level if level[:1] != "{" or level not in levels[:at] else "+" for at, level in enumerate(levels)]
    return "/".join(levels)


def oracle(template, topic):
    """Level by level, from the left."""
    levels, given_levels, named = template.split("/"), topic.split("/"), {}
    if topic.startswith("$") and (levels[0] in ("+", "#") or levels[0].startswith("{")):
        return None
    for at, level in enumerate(levels):
        if level == "#":
            return named
        if at == len(given_levels):
            return None
        if level.startswith("{"):
            named[level[1:-1]] = given_levels[at]
        elif level not in ("+", given_levels[at]):
            return None
    return named if len(levels) == len(given_levels) else None


@examples(300)
@given(templates().filter(bool), TOPICS)
def test_a_template_matches_as_the_oracle_and_as_paho(template, topic):
    made = topic_template(template)
    expected = oracle(template, topic)
    if template.endswith("/#") and topic == template.removesuffix("/#"):
        expected = {}
    assert made.named(topic) == expected
    assert (made.named(topic) is not None) == topic_matches_sub(made.topic_filter, topic)


def test_names_and_the_filter():
    made = topic_template("sensors/+/{source}/{area}/no2")
    assert made.topic_filter == "sensors/+/+/+/no2"
    assert made.named("sensors/x/z7/north/no2") == {"source": "z7", "area": "north"}
    assert made.named("sensors/x/z7/no2") is None


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("a/b{c}", "'b{c}'"),
        ("a/{}", "'{}'"),
        ("{a}/{a}", "'a' twice"),
        ("a+/b", r"'a\+'"),
        ("a/#/b", "'a/#/b'"),
        ("$share/group/a", r"'\$share/group/a'"),
        ("", "''"),
        ("a\0", r"'a\\x00'"),
        ("a\ud800", "udcff|ud800"),
        ("x" * 70_000, "xxx"),
    ],
)
def test_templates_that_are_none(text, got):
    with pytest.raises(SettingError, match=f"expected .*; got .*{got}"):
        topic_template(text)


def test_a_topic_to_publish_to_has_no_wildcards():
    assert check_topic("a/b") == "a/b"
    for text in ("a/+", "#", ""):
        with pytest.raises(SettingError):
            check_topic(text)
