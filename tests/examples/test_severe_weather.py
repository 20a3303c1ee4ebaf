"""The severe-weather case study: the whole script on real files and on generated ones, held against obvious loops."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path

import pyoxigraph
import pytest

from examples.severe_weather import generated
from tests.examples.storm_loops import World

ROOT = Path(__file__).parents[2]
REAL = ROOT.parent / "shared" / "data"
DOCS = ROOT / "docs" / "SEVERE_WEATHER.md"
NE = "http://example.org/us/nebraska#"
pytestmark = pytest.mark.xdist_group("severe weather")  # one run of each for all
needs_real = pytest.mark.skipif(
    not (REAL / "severe_weather").exists(), reason="../shared/data/severe_weather is not here"
)


# --- the script -----------------------------------------------------------------------------------------------------


class Cells(HTMLParser):
    """The cells of tables by the table's id, and the visible text."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.text, self._table, self._cell, self._hidden = defaultdict(list), "", None, None, 0
        self.resources = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.resources += [attrs[name] for name in ("src", "href") if name in attrs]
        if tag == "table":
            self._table = attrs.get("id")
        elif tag == "tr" and self._table:
            self.tables[self._table].append([])
        elif tag == "td":
            self._cell = ""
        self._hidden += tag in ("script", "style")

    def handle_endtag(self, tag):
        if tag == "td":
            self.tables[self._table][-1].append(self._cell)
            self._cell = None
        elif tag == "table":
            self._table = None
        self._hidden -= tag in ("script", "style")

    def handle_data(self, data):
        if self._cell is not None:
            self._cell += data
        if not self._hidden:
            self.text += data


def ran(out, *arguments):
    """In a process of its own: an ontology is loaded for the whole process."""
    command = [sys.executable, "-W", "error", "-m", "examples.severe_weather", "--out", str(out), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Run:
    def __init__(self, data, out, *arguments):
        self.world, self.out, self.printed = World(data), out, ran(out, *arguments)
        self.page = (out / "severe_weather.html").read_text("utf-8")
        self.cells = Cells(self.page)

    def printed_table(self):
        lines = self.printed.splitlines()
        first = next(i for i, line in enumerate(lines) if line.startswith("time  "))
        return [re.split(r" {2,}", line) for line in lines[first + 1 : lines.index("", first)]]


@pytest.fixture(scope="module", params=["real", "generated"])
def run(request, tmp_path_factory):
    out = tmp_path_factory.mktemp(request.param)
    if request.param == "generated":
        generated.write(out / "data")
        return Run(out / "data", out / "out", "--data", str(out / "absent"))
    if not (REAL / "severe_weather").exists():
        pytest.skip("../shared/data/severe_weather is not here")
    return Run(REAL, out / "out")


def test_the_told_are_those_of_the_loops(run):
    expected = run.world.told()
    assert sorted(tuple(row[:3]) for row in run.printed_table()) == expected
    assert len(expected) >= 6


def test_counties_that_are_released_early_change_nothing(run):
    """A warning ends with its last county; nobody is told of anything that only this explains."""
    if "generated" not in run.printed.splitlines()[0]:
        assert run.world.told() == run.world.told(exact=True)


def test_the_page_says_the_same(run):
    rows = [row for row in run.cells.tables["told"] if row]
    assert rows == run.printed_table()
    world = run.world
    told, warned = len(world.told()), {county for _, _, ends in world.warnings() for county in ends}
    text = " ".join(run.cells.text.split())
    subscribers = len({b for (_, b), side in world.side.items() if side == "West"})
    assert (
        f"{len(world.rows)} warnings in {len(warned)} of {len(world.centre)} counties. {subscribers} subscribers"
        in text
    )
    assert f"{told} notifications are sent" in text
    assert f"{told} notifications. If everybody asked for every warning in a county next to theirs," in text
    assert f" there would be {world.next_door()}." in text
    assert f"{told} notifications; {world.next_door()} if everybody" in run.printed
    assert f"Emma, Harry and Dorothy: {world.people()} notifications" in run.printed


def test_the_map_has_what_the_table_has(run):
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', run.page).group(1))
    start = min(s for s, _, _ in run.world.warnings()).replace(minute=0)
    shown = sorted(
        (f"{(data['midnight'] + w['start']) // 60 % 24:02}:{w['start'] % 60:02}", data["names"][who], w["short"])
        for w in data["warnings"]
        for who in w["told"]
    )
    assert shown == run.world.told()
    by_time = {(round((s - start).total_seconds() / 60), id): ends for s, id, ends in run.world.warnings()}
    assert {(w["start"], w["short"]) for w in data["warnings"]} == set(by_time)
    for w in data["warnings"]:
        released = {data["names"][county]: minute for county, minute in w["released"]}
        ends = by_time[w["start"], w["short"]]
        assert released == {county: round((end - start).total_seconds() / 60) for county, end in ends.items()}
    assert data["moments"] == sorted({w["start"] for w in data["warnings"] if w["told"]})


def test_what_became_of_those_who_were_told(run):
    """The last column: when the subscriber's own county is warned, from the moment on which they are told."""
    first = {}
    for start, _, ends in run.world.warnings():
        for county in ends:
            first.setdefault(county, start)
    by_id = {id: start for start, id, _ in run.world.warnings()}
    ahead = set()
    for _, who, id, *_, own in run.printed_table():
        later = [s for s, _, ends in run.world.warnings() if who in ends and s >= by_id[id]]
        minutes = int((min(later) - by_id[id]).total_seconds()) // 60 if later else None
        assert own == ("no" if minutes is None else f"{minutes} min later" if minutes else "at once")
        if who in first and by_id[id] < first[who]:
            ahead.add(who)
    assert f"{len(ahead)} of the {len(first)} warned counties heard" in run.printed


def test_every_reason_is_one(run):
    """The column *because of* names warnings that ran then, in counties west of one of the warning."""
    for time, who, id, into, because, _ in run.printed_table():
        start = next(s for s, name, _ in run.world.warnings() if name == id)
        assert f"{start:%H:%M}" == time
        into = re.split(", | and ", into)
        assert into
        assert all(run.world.side[county, who] == "West" for county in into)
        for reason in because.split("; "):
            name, places = reason.split(" in ")
            began, ends = next((s, ends) for s, other, ends in run.world.warnings() if other == name)
            assert name != id
            assert began <= start <= max(ends.values())
            for before in re.split(", | and ", places):
                assert before in ends
                assert any(run.world.side.get((before, county)) == "West" for county in into)


def test_emma_is_told_along_path_a_and_not_along_path_b(run):
    paths = {row[0]: row[3].split(", ") for row in run.cells.tables["people"] if row}
    assert paths == {"A": ["Emma", "Dorothy"], "B": ["Harry", "Dorothy"], "C": ["Dorothy"]}
    assert re.search(r"^A  Hall > Hamilton > York +told: Emma, Dorothy$", run.printed, re.MULTILINE)
    assert re.search(r"^B  Merrick > Hamilton > Fillmore +told: Harry, Dorothy$", run.printed, re.MULTILINE)
    assert re.search(r"^C  Hamilton +told: Dorothy$", run.printed, re.MULTILINE)
    assert "Synthetic." in run.cells.text


def test_the_page_stands_alone(run):
    assert all(reference.startswith("#") for reference in run.cells.resources)
    assert not re.search(r"@(?!media)\w+@?", run.cells.text)
    assert "url(http" not in run.page
    assert ("generated" in run.cells.text.lower()) is ("generated" in run.printed)
    assert len(run.page) < 300_000
    for name in ("told.svg", "paths.svg"):
        assert (run.out / name).stat().st_size < 100_000


@pytest.mark.parametrize("seed", range(3))
def test_other_storms(seed, tmp_path):
    """Enough of them that they overlap."""
    from examples.severe_weather.__main__ import run
    from tidegate.ontologies import current

    generated.write(tmp_path, seed, storms=40)
    with current.use(None):
        report = run(tmp_path, tmp_path / "out", real=False)
    world = World(tmp_path)
    told = sorted((f"{t.time:%H:%M}", report.names([t.who])[0], t.warning.short) for t in report.told)
    assert told == world.told()
    assert len(told) > 100
    assert report.next_door == world.next_door()
    assert len(report.people_told) == world.people() > 5


# --- the ontology ---------------------------------------------------------------------------------------------------


def test_the_ontology_says_where_neighbours_are(run):
    store = pyoxigraph.Store()
    store.load(path=str(run.out / "nebraska.ttl"), format=pyoxigraph.RdfFormat.TURTLE)
    triples = {(s.value, p.value, getattr(o, "value", None)) for s, p, o, _ in store}

    def term(name):
        return NE + name.replace(" ", "")

    opposite = {"North": "South", "NorthEast": "SouthWest", "East": "West", "SouthEast": "NorthWest"}
    opposite |= {b: a for a, b in opposite.items()}
    inverse = {(s, o) for s, p, o in triples if p.endswith("#inverseOf")}
    assert len(inverse) == 4
    assert all((f"{NE}is{a}Of", f"{NE}is{b}Of") in inverse | {(o, s) for s, o in inverse} for a, b in opposite.items())
    for (a, b), side in run.world.side.items():
        said = (term(a), f"{NE}is{side}Of", term(b)), (term(b), f"{NE}is{opposite[side]}Of", term(a))
        assert sum(triple in triples for triple in said) == 1, (a, side, b)
    directed = [t for t in triples if re.fullmatch(rf"{NE}is\w+Of", t[1]) and t[0] != t[2]]
    assert len(directed) == len(run.world.side) / 2
    for name in run.world.centre:
        assert (term(name), f"{NE}isLocatedIn", f"{NE}Nebraska") in triples


FIGURE = [  # 7.3 of the paper
    ("Hamilton", "East", "Hall"),
    ("Hamilton", "North", "Clay"),
    ("Hamilton", "South", "Merrick"),
    ("Hamilton", "SouthWest", "Polk"),
    ("Hamilton", "West", "York"),
    ("York", "NorthEast", "Clay"),
]


@pytest.mark.parametrize(("a", "side", "b"), FIGURE)
def test_the_papers_fragment(run, a, side, b):
    from examples.severe_weather.counties import State
    from examples.severe_weather.directions import relation

    data = REAL if "generated" not in run.printed.splitlines()[0] else run.out.parent / "data"
    counties = State.read(data / "ontologies").counties
    assert relation(counties[f"ne:{a}"], counties[f"ne:{b}"]) == f"is{side}Of"
    assert run.world.side[a, b] == side


# --- publications ---------------------------------------------------------------------------------------------------


@needs_real
def test_publications_are_a_start_and_an_end_in_order():
    from examples.severe_weather import county_warnings
    from examples.severe_weather.counties import State

    state = State.read(REAL / "ontologies")
    warnings = county_warnings.read(REAL / "severe_weather" / "county_warnings.csv", state)
    made = county_warnings.publications(warnings, state)
    assert [p.time for p in made] == sorted(p.time for p in made)
    assert len(made) == 2 * len(warnings) == 24
    for warning in warnings:
        start, end = (p for p in made if p.id == warning.id)
        assert (start.phase, end.phase) == ("START", "END")
        assert start.start == start.time == warning.start
        assert start.end is None
        assert end.start is None
        assert end.end == end.time == warning.end
    by_id = {warning.id: warning for warning in warnings}
    assert by_id["LBF.SV.1.2020"].counties == ("ne:Keith", "ne:Perkins")
    # Keith was released at 16:36, Perkins at 17:00, both in the file's own UTC-05:00.
    assert f"{by_id['LBF.SV.1.2020'].end.timestamp():.0f}" == "1588543200"


@needs_real
def test_rows_as_events_of_their_own_would_look_like_storms_on_the_move():
    """What the docs say of Furnas at 19:05."""
    world, told = World(REAL), set()
    rows = [(start, id, county, end) for start, id, ends in world.warnings() for county, end in ends.items()]
    for i, (start, id, county, _) in enumerate(rows):
        for began, _, before, end in rows[:i]:
            if began <= start <= end and world.side.get((before, county)) == "West":
                told |= {(f"{start:%H:%M}", who, id) for who in world.centre if world.side.get((county, who)) == "West"}
    assert told - set(world.told()) == {("19:05", "Furnas", "GLD SV 4")}
    assert set(world.told()) <= told


@needs_real
def test_few_neighbours_are_near_the_edge_of_a_sector():
    """What the docs say of hard edges."""
    from examples.severe_weather.counties import State
    from examples.severe_weather.directions import bearing

    state = State.read(REAL / "ontologies")
    off = [(bearing(state.counties[a], state.counties[b]) + 22.5) % 45 for a, b in state.neighbours]
    near = sum(min(angle, 45 - angle) < 1 for angle in off)
    assert f"{near} of the {len(off)} pairs are within 1° of one" in DOCS.read_text("utf-8")


@needs_real
def test_few_counties_have_no_neighbour_in_the_west():
    """What the docs say of them."""
    side = World(REAL).side
    ways = {county: {way for (_, b), way in side.items() if b == county} for _, county in side}
    without = [found for found in ways.values() if "West" not in found]
    border = [found for found in without if not found & {"NorthWest", "SouthWest"}]
    said = f"{len(ways) - len(without)} of the {len(ways)} counties have a neighbour straight in the west. "
    said += f"Of the other {len(without)}, {len(border)} have the border of the state there, "
    said += f"and {len(without) - len(border)} (Nance, for one, between Greeley and Howard) have"
    assert said in " ".join(DOCS.read_text("utf-8").split())
    assert (side["Greeley", "Nance"], side["Howard", "Nance"]) == ("NorthWest", "SouthWest")


# --- the page in the docs -------------------------------------------------------------------------------------------


@needs_real
def test_the_docs_show_what_the_script_prints_and_draws(tmp_path):
    printed = ran(tmp_path)
    shown = re.search(
        r"^\$ python -m examples\.severe_weather\n(.*?)^```$", DOCS.read_text("utf-8"), re.M | re.S
    ).group(1)
    assert printed.replace(str(tmp_path), "build/severe_weather") == shown
    for name, picture in (("told.svg", "severe_weather.svg"), ("paths.svg", "severe_weather_paths.svg")):
        assert (DOCS.parent / "images" / picture).read_text("utf-8") == (tmp_path / name).read_text("utf-8")


def test_the_docs_show_emmas_subscription():
    from examples.severe_weather.subscribers import people

    text = " ".join(DOCS.read_text("utf-8").split())
    emma = next(s for s in people() if s.id == "Emma")
    assert str(emma.where) in text
