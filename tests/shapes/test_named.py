"""Shapes with names: those that are always there, users' own from files, and every mistake such a file can have."""

from __future__ import annotations

import pickle
from contextlib import suppress
from math import nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import SettingError
from tidegate.shapes.named_shapes import NamedShape, everything, find, load, near, use
from tidegate.shapes.normal_form import LONGEST, distance, normal, rendered

BUILT_IN = everything()


@pytest.fixture(autouse=True)
def no_trace():
    with use():
        yield
    assert everything() == BUILT_IN


def refused(path, content: str | bytes) -> str:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    before = everything()
    with pytest.raises(SettingError) as caught:
        load(path)
    assert everything() == before
    assert str(path) in caught.value.at
    return str(caught.value)


# --- those that are always there ------------------------------------------------------------------------------------


def test_what_users_expect_is_there():
    expected = {
        *("head-and-shoulders", "inverse-head-and-shoulders", "double-top", "double-bottom", "cup-and-handle", "flag"),
        *("spike", "dip", "step-up", "step-down", "ramp-up", "ramp-down", "plateau", "valley", "oscillation"),
    }
    assert expected <= {shape.name for shape in BUILT_IN}


@pytest.mark.parametrize("shape", BUILT_IN, ids=lambda shape: shape.name)
def test_each_has_a_meaning_and_a_shape_at_every_length_from_eight(shape):
    assert find(shape.name) is shape
    assert len(shape.meaning) > 5
    assert pickle.loads(pickle.dumps(shape)) == shape
    for n in (*range(8, 200), 2040, LONGEST):
        assert normal(rendered(shape.points, n)) is not None, n


def test_no_two_are_alike():
    """At 60 numbers, unrelated series are about 11 apart."""
    forms = [normal(rendered(shape.points, 60)) for shape in BUILT_IN]
    assert min(distance(a, b) for i, a in enumerate(forms) for b in forms[:i]) > 2


@pytest.mark.parametrize("pair", ["head-and-shoulders", "double-top", "spike", "step-up", "ramp-up", "hill"])
def test_opposites_are_mirrored(pair):
    other = {
        "head-and-shoulders": "inverse-head-and-shoulders",
        "double-top": "double-bottom",
        "spike": "dip",
        "step-up": "step-down",
        "ramp-up": "ramp-down",
        "hill": "valley",
    }[pair]
    up, down = (normal(rendered(find(name).points, 60)) for name in (pair, other))
    assert distance(up, -down) < 1e-12


def test_a_few_look_as_their_names_say():
    assert rendered(find("ramp-up").points, 5).tolist() == [0, 0.5, 1, 1.5, 2]
    peaks = rendered(find("head-and-shoulders").points, 7)
    assert peaks.argmax() == 3
    assert peaks[1] == peaks[5] < peaks[3]
    assert rendered(find("spike").points, 61).argmax() == 30


def test_an_unknown_name():
    assert find("no-such-shape") is None
    assert find("Spike") is None


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("heads", "head-and-shoulders"),
        ("Head And Sholders", "head-and-shoulders"),
        ("SPIKE", "spike"),
        ("spikes", "spike"),
        ("double_top", "double-top"),
        ("u-shape", "valley"),
        ("cup", "cup-and-handle"),
    ],
)
def test_what_may_have_been_meant(written, meant):
    assert near(written)[0] == meant
    assert len(near(written)) <= 3


def test_nothing_is_suggested_for_nonsense():
    assert near("qqqq") == near("") == []


# --- users' own -----------------------------------------------------------------------------------------------------


def test_toml(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        '[shapes.my-shape]\npoints = [0, 1.5, 0]\nmeaning = "up and down"\n[shapes.b2]\npoints = [3, 2, 9]\n'
    )
    found = load(path)
    assert found == [NamedShape("my-shape", (0.0, 1.5, 0.0), "up and down"), NamedShape("b2", (3.0, 2.0, 9.0))]
    assert find("my-shape") is found[0]
    assert everything() == BUILT_IN + found
    assert near("my-shpe") == ["my-shape"]
    assert all(type(point) is float for shape in found for point in shape.points)


def test_csv(tmp_path):
    path = tmp_path / "mine.CSV"
    path.write_bytes('\ufeffmy-shape, 0, 1e1 ,-.5\r\n\r\n"other",1,2,3,,\r\n,,\r\n'.encode())
    assert load(str(path)) == [NamedShape("my-shape", (0.0, 10.0, -0.5)), NamedShape("other", (1.0, 2.0, 3.0))]


def test_a_file_may_be_loaded_again_but_not_change_a_shape(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("mine,1,2,1\n")
    assert load(path) == load(path)
    path.write_text("new,1,2,5\nmine,1,2,4\n")
    with pytest.raises(SettingError, match=r"'mine' again, with other points than before; at .*mine.csv, line 2"):
        load(path)
    assert find("mine").points == (1, 2, 1)
    assert find("new") is None


def test_use_leaves_no_trace(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("mine,1,2,1\n")

    def in_use():
        with use(NamedShape("other", (1, 2, 3))):
            load(path)
            assert find("mine")
            assert find("other")
            raise KeyError

    with use(NamedShape("outer", (1, 2, 3))):
        with pytest.raises(KeyError):
            in_use()
        assert find("mine") is find("other") is None
        assert find("outer")
    with pytest.raises(SettingError, match="no built-in shape has; got 'spike'"), use(NamedShape("spike", (1, 2, 3))):
        pass


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("My Shape,1,2,3", "digits and hyphens between them, 64 characters at most; got 'My Shape'"),
        (f"{'a' * 65},1,2,3", "64 characters at most"),
        ("-a,1,2,3", "a name of small letters"),
        (",1,2,3", "a name of small letters, digits and hyphens between them, 64 characters at most; got ''"),
        ("1.5,1,2,3", "a name of small letters"),
        ("stream,1,2,3", "a name other than 'stream' and 'stretched'; got 'stream'"),
        ("ok,1,2,3\nspike,1,2,3", "a name that no built-in shape has; got 'spike'; at "),
        ("a,1,2", "3 to 65,536 numbers as points; got 2"),
        ("a", "3 to 65,536 numbers as points; got 0"),
        ("a," + ",".join(["1", "2"] * 32_769), "3 to 65,536 numbers as points; got 65,538"),
        ("a,1,two,3", "numbers after the name; got 'two'"),
        ("a,1,,3", "numbers after the name; got ''"),
        ("a,1,1_0,3", "numbers after the name; got '1_0'"),
        ("a,1,nan,3", "finite numbers as points; got nan"),
        ("a,1,-inf,3", "finite numbers as points; got -inf"),
        ("a,2,2,2.0", "points that are not all equal; got 3 times 2.0"),
        ("a,0,-0.0,0", "points that are not all equal"),
        ("a,1,2,3\na,1,2,3", "each name once; got 'a' again"),
        ('a,"1,2', "a row of CSV; got "),
        ("\n\n", "a shape at least; got a file without any"),
        (b"a,1,\xff,3", "text in UTF-8; got the byte 0xff"),
    ],
)  # fmt: skip
def test_mistakes_in_csv(tmp_path, content, words):
    assert words in refused(tmp_path / "bad.csv", content)


def test_the_line_of_a_mistake(tmp_path):
    path = tmp_path / "bad.csv"
    assert refused(path, "a,1,2,3\n\nb,1,2\n").endswith(f"at {path}, line 3")
    assert refused(tmp_path / "bad.toml", "[shapes.a]\npoints = [1, 2, 3]\n[shapes.b]\npoints = [1]").endswith(
        "shapes.b"
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[shapes.a]\npoints = [1, 2", "TOML; got "),
        ("[shapes.a]\npoints = [1, 2, 3]\n[shapes.a]\n", "TOML; got "),
        ("[shapes.a]\npoints = [1, 2]", "3 to 65,536 numbers"),
        ('[shapes.a]\npoints = [1, "2", 3]', "numbers as points; got '2'"),
        ("[shapes.a]\npoints = [1, true, 3]", "numbers as points; got True"),
        ("[shapes.a]\npoints = [1, [2], 3]", "numbers as points; got [2]"),
        ("[shapes.a]\npoints = [1, nan, 3]", "finite numbers as points; got nan"),
        (f"[shapes.a]\npoints = [1, 1{'0' * 400}, 3]", "that doubles can hold"),
        ("[shapes.a]\npoints = 3", "a table with points = [numbers]; got "),
        ('[shapes.a]\nmeaning = "x"', "a table with points = [numbers]; got "),
        ("[shapes]\na = [1, 2, 3]", "a table with points = [numbers]; got [1, 2, 3]"),
        ("[shapes.a]\npoints = [1, 2, 3]\npoint = 1", "points and meaning only; got 'point'"),
        ("[shapes.a]\npoints = [1, 2, 3]\nmeaning = 1", "characters at most as meaning; got 1"),
        ('[shapes."A b"]\npoints = [1, 2, 3]', "a name of small letters"),
        ("[shapes.dip]\npoints = [1, 2, 3]", "a name that no built-in shape has; got 'dip'"),
        ("[shape.a]\npoints = [1, 2, 3]", "tables [shapes.NAME]; got shape = "),
        ("shapes = 3", "tables [shapes.NAME]; got shapes = 3"),
        ("", "a shape at least"),
        (b"\xff", "text in UTF-8"),
        ("x = " + "[" * 5000, "TOML; got "),
    ],
)
def test_mistakes_in_toml(tmp_path, content, words):
    assert words in refused(tmp_path / "bad.toml", content)


def test_files_that_are_none(tmp_path):
    with pytest.raises(SettingError, match=r"ends in .toml or .csv; got 'a.json'"):
        load(tmp_path / "a.json")
    with pytest.raises(SettingError, match="a file of shapes; got No such file"):
        load(tmp_path / "nix.toml")
    (tmp_path / "dir.csv").mkdir()
    with pytest.raises(SettingError, match="a file of shapes; got Is a directory"):
        load(tmp_path / "dir.csv")


@given(st.lists(st.floats(), max_size=6))
def test_what_is_taken_has_a_shape(points):
    try:
        shape = NamedShape("a", tuple(points))
    except SettingError:
        assert len(points) < 3 or nan in points or normal(points) is None
    else:
        assert normal(shape.points) is not None


@given(st.binary(max_size=200), st.sampled_from(["x.toml", "x.csv"]))
def test_no_bytes_bring_anything_but_shapes_or_the_error(tmp_path_factory, content, name):
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)
    with use(), suppress(SettingError):
        assert load(path)
