"""CQL2-JSON as Python programs have it: tuples, geometries, numbers of other libraries."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
import shapely
from hypothesis import given

import tidegate as tg
from tests.language.strategies import trees
from tidegate.errors import ParseError
from tidegate.language import from_json, to_json
from tidegate.language.json_values import plain_json


def tupled(value):
    if isinstance(value, dict):
        return {key: tupled(inner) for key, inner in value.items()}
    return tuple(map(tupled, value)) if isinstance(value, list) else value


@given(node=trees)
def test_tuples_are_lists(node):
    assert from_json(tupled(to_json(node))) == node


AREA = shapely.box(0, 0, 1, 1)
WITHIN = {"op": "s_within", "args": [{"property": "location"}, shapely.geometry.mapping(AREA)]}


def test_geometries_of_shapely_are_geojson():
    expected = from_json({"op": "s_within", "args": [{"property": "location"}, plain_json(AREA.__geo_interface__)]})
    given = {"op": "s_within", "args": ({"property": "location"}, AREA)}
    assert from_json(WITHIN) == from_json(given) == expected
    assert isinstance(given["args"], tuple), "what is given is not changed"
    many = shapely.GeometryCollection([AREA, shapely.Point(1, 2)])
    assert from_json({"op": "s_within", "args": [{"property": "location"}, many]}).args[1].kind == "GeometryCollection"


def test_numbers_of_other_libraries():
    given = {"op": "in", "args": [{"property": "a"}, [np.int32(1), np.float32(0.5), Decimal("2.5")]]}
    assert from_json(given) == from_json({"op": "in", "args": [{"property": "a"}, [1, 0.5, 2.5]]})


def test_they_are_stored_as_json(tmp_path):
    subscription = tg.Subscription("s", "ann", {"op": "s_within", "args": ({"property": "location"}, AREA)})
    engine = tg.Engine([subscription])
    with tg.Registry(tmp_path / "registry.db") as registry:
        registry.subscribe(subscription)
        for (kept,) in (engine, registry):
            assert kept.where == to_json(from_json(subscription.where))


class Unable:
    @property
    def __geo_interface__(self):
        raise RuntimeError("no coordinates")


def test_what_is_no_json_is_refused_where_it_is():
    for wrong in (object(), Unable(), {1, 2}, b"a"):
        with pytest.raises(ParseError, match=r"\$\.args\[1\]"):
            from_json({"op": "=", "args": ({"property": "a"}, wrong)})
    endless = {"op": "and", "args": ()}
    endless["args"] = (endless, endless)
    with pytest.raises(ParseError, match="limit"):
        from_json(endless)
