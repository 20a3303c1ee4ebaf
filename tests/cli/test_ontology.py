"""ontology, --ontology and [ontology]: what terms mean, wherever expressions are compiled, and only in that call."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

import tidegate as tg
from tests.cli.commands import CONFIG, config, lines, refused, run
from tests.parts.cellar import CELLAR, cellar
from tidegate.errors import SettingError
from tidegate.ontologies import current
from tidegate.runs.config import OntologySection, load

RED = "isA(wine, 'w:Red')"
PREFIX = ("--prefix", f"w={CELLAR}")
SECTION = f'\n[ontology]\nfiles = ["cellar.ttl"]\n[ontology.prefixes]\nw = "{CELLAR}"\n'
MERLOT = {"id": "p1", "source": "z", "time": "2026-11-15T08:00:00Z", "wine": "w:merlot"}
SYRAH = MERLOT | {"id": "p2", "wine": "w:syrah"}
OLD = {"Red": ["merlot", "malbec"], "White": ["riesling"]}
NEW = {"Red": ["merlot", "malbec", "syrah"]}
WITHOUT = "expected an ontology, loaded with"
WINE = Path(__file__).parents[3] / "shared/data/ontologies/wine.rdf"


@pytest.fixture
def wines(tmp_path):
    return cellar(tmp_path / "cellar.ttl", **OLD)


@pytest.fixture
def subscriptions(tmp_path):
    return lines(tmp_path / "s.jsonl", [{"id": "s", "subscriber": "ann", "where": RED}])


@pytest.fixture(autouse=True)
def no_trace():
    with current.use(None):  # other tests of this process may have loaded one
        yield
        assert current.get() is None


# --- the options ----------------------------------------------------------------------------------------------------


def test_check(wines, subscriptions):
    assert "1 good, 0 wrong" in run("check", subscriptions, "--ontology", wines, *PREFIX).stdout
    assert WITHOUT in run("check", subscriptions, code=1).stderr
    assert "a declared prefix" in run("check", subscriptions, "--ontology", wines, code=1).stderr


def test_match(tmp_path, wines, subscriptions):
    publications = lines(tmp_path / "p.jsonl", [MERLOT, SYRAH])
    options = ("--ontology", wines, *PREFIX)
    found = run("match", subscriptions, publications, *options).stdout.splitlines()
    assert [orjson.loads(line)["publication_ids"] for line in found] == [["p1"]]
    more = cellar(tmp_path / "more.ttl", Red=["syrah"])  # several files are one ontology
    found = run("match", subscriptions, publications, *PREFIX, "--ontology", more, *options[:2]).stdout.splitlines()
    assert len(found) == 2
    assert WITHOUT in run("match", subscriptions, publications, code=2).stderr


def test_explain(wines, subscriptions):
    asked = ("explain", subscriptions, "s", orjson.dumps(MERLOT).decode())
    assert "s matches p1" in run(*asked, "--ontology", wines, *PREFIX).stdout
    assert WITHOUT in run(*asked, code=2).stderr


def test_subscribe(tmp_path, wines, subscriptions):
    place = tmp_path / "registry.db"
    one = ("--id", "t", "--subscriber", "ann", "--where", RED)
    assert WITHOUT in run("subscribe", place, *one, code=2).stderr
    run("subscribe", place, *one, "--ontology", wines, *PREFIX)
    run("subscribe", place, subscriptions, "--ontology", wines, *PREFIX)
    assert [line.split("  ")[-1] for line in run("list", place).stdout.splitlines()] == [RED, RED]
    assert orjson.loads(run("list", place, "--json", "--limit", 1).stdout)["where"] == RED
    with tg.Registry(place) as registry:
        assert all("w:merlot" in row.where and "isA" not in row.where for row in registry.rows(0, 2))


def test_a_config_file_brings_its_own_unless_another_is_given(tmp_path, wines):
    path = config(tmp_path, CONFIG + SECTION)
    white = ("--subscriber", "ann", "--where", "isA(wine, 'w:White')")
    run("subscribe", path, "--id", "s", *white)
    other = cellar(tmp_path / "other.ttl", **NEW)
    message = run("subscribe", path, "--id", "t", *white, "--ontology", other, *PREFIX, code=2).stderr
    assert "expected a term of the ontology" in message
    assert "a declared prefix" in run("subscribe", path, "--id", "t", *white, "--ontology", other, code=2).stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--prefix", f"w={CELLAR}"), "--ontology beside --prefix; got --prefix alone"),
        (("--ontology", "no.ttl"), "a file of RDF; got No such file"),
        (("--ontology", "cellar.ttl", "--prefix", "w"), "--prefix as name=IRI; got 'w'"),
        (("--ontology", "cellar.ttl", "--prefix", "w="), "--prefix as name=IRI; got 'w='"),
        (("--ontology", "cellar.ttl", "--prefix", "w=http://a#", "--prefix", "w=http://b#"), "each --prefix once"),
        (("--ontology", "cellar.ttl", "--prefix", "w w=http://a#"), "a prefix such as"),
        (("--ontology", "s.jsonl"), "a file that ends in one of .rdf"),
    ],
)
def test_options_that_cannot_be_used_are_one_message(tmp_path, wines, subscriptions, monkeypatch, options, says):
    monkeypatch.chdir(tmp_path)
    assert says in refused("check", subscriptions, *options)


# --- the section ----------------------------------------------------------------------------------------------------


def test_the_section(tmp_path, wines):
    assert load(config(tmp_path)).ontology == OntologySection()
    found = load(config(tmp_path, CONFIG + SECTION)).ontology
    assert found == OntologySection((str(wines),), {"w": CELLAR})
    with found.used():
        assert current.get().terms("isA", f"{CELLAR}White") == {f"{CELLAR}riesling"}
    with OntologySection().used():
        assert current.get() is None
    wines.write_text("nonsense")
    with pytest.raises(tg.TidegateError, match=r"cellar\.ttl"), found.used():
        pytest.fail("it was used")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('files = "cellar.ttl"', "a list of paths; got 'cellar.ttl'; at ontology.files"),
        ("files = [3]", "text that is not empty; got 3; at ontology.files.0"),
        ("prefixes = 3", "a section [ontology.prefixes]; got 3"),
        ('file = "cellar.ttl"', "did you mean files?"),
    ],
)
def test_the_section_with_a_mistake(tmp_path, text, says):
    with pytest.raises(SettingError) as caught:
        load(config(tmp_path, f"{CONFIG}\n[ontology]\n{text}\n"))
    assert says in str(caught.value)


# --- show and ask ---------------------------------------------------------------------------------------------------


def test_show(tmp_path, wines, caplog):
    wines.write_text(
        wines.read_text()
        + "w:cellar a owl:Ontology ; owl:imports <http://example.org/food> .\n"
        + "w:likes a owl:ObjectProperty .\nw:ann w:likes w:merlot .\n"
    )
    facts = orjson.loads(run("ontology", "show", wines, "--json").stdout)
    assert (facts["classes"], facts["individuals"], facts["properties"]) == (2, 3, 1)
    assert facts["triples"] > facts["stated"] == 9
    assert facts["seconds"] > 0
    assert facts["files"] == [str(wines)]
    assert (facts["prefixes"], facts["declared"]) == ({}, {"w": CELLAR})
    assert facts["missing"] == ["http://example.org/food"]
    said = run("ontology", "show", wines).stdout
    for words in ("classes      2", "individuals  3", "properties   1", "9 in the files", "give --prefix:\n  w:  http"):
        assert words in said
    assert "imported, and not among the files:\n  http://example.org/food" in said
    said = run("ontology", "show", wines, *PREFIX).stdout
    assert f"expressions and publications:\n  w:  {CELLAR}" in said
    assert "give --prefix" not in said
    assert not caplog.records, "what is missing is told once"


@pytest.mark.skipif(not WINE.exists(), reason=f"{WINE} is not there")
def test_the_wines_of_the_w3c():
    vin = "http://www.w3.org/TR/2003/PR-owl-guide-20031209/wine#"
    facts = orjson.loads(run("ontology", "show", WINE, "--json").stdout)
    assert (facts["classes"], facts["individuals"], facts["properties"]) == (74, 161, 13)
    asked = ("ontology", "ask", WINE, "isA(wine, 'vin:RedWine')", "--prefix", f"vin={vin}")
    assert run(*asked).stdout.splitlines()[0] == "isA vin:RedWine: 26 terms"


def test_ask(tmp_path, wines):
    asked = ("ontology", "ask", wines, "price > 5 AND NOT isA(wine, 'w:Red') OR isA(wine, 'w:White')", *PREFIX)
    expected = "isA w:Red: 2 terms\n  w:malbec\n  w:merlot\n\nisA w:White: 1 term\n  w:riesling\n"
    assert run(*asked).stdout == expected
    red, white = orjson.loads(run(*asked, "--json").stdout)
    assert (red["operator"], red["about"]) == ("isA", ["w:Red"])
    assert white["terms"] == [{"name": "w:riesling", "iri": f"{CELLAR}riesling"}]
    more = cellar(tmp_path / "more.ttl", Red=["syrah"])
    assert "3 terms" in run("ontology", "ask", wines, more, RED, *PREFIX).stdout
    bag = f"a_contains(wines, ('<{CELLAR}Red>'), 'isA')"
    assert run("ontology", "ask", wines, bag).stdout == f"isA <{CELLAR}Red>: 2 terms\n" + "".join(
        f"  <{CELLAR}{name}>\n" for name in ("malbec", "merlot")
    )


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("price > 5", "an expression with isA, equivalent, moreSpecific, lessSpecific or related; got 'price > 5'"),
        ("isA(wine, 'w:Rosé')", "a term of the ontology"),
        ("isA(wine", "expected"),
        ("isA(wine, 'x:Red')", "a declared prefix: owl, rdf, rdfs, w, xsd"),
    ],
)
def test_ask_what_cannot_be_answered(wines, expression, says):
    result = run("ontology", "ask", wines, expression, *PREFIX, code=2)
    assert says in result.stderr


@pytest.mark.parametrize("command", [("show",), ("ask", RED), ("load", "--registry", "r.db")])
def test_an_ontology_that_contradicts_itself(tmp_path, wines, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    tg.Registry("r.db").close()
    wines.write_text(wines.read_text() + "w:Red owl:disjointWith w:White .\nw:merlot a w:White .\n")
    name, *rest = command
    said = refused("ontology", name, wines, *rest, *PREFIX)
    assert "an ontology without contradictions; got w:merlot is of w:" in said


# --- load -----------------------------------------------------------------------------------------------------------


def test_load(tmp_path, wines):
    place = tmp_path / "registry.db"
    run("subscribe", place, "--id", "s", "--subscriber", "ann", "--where", RED, "--ontology", wines, *PREFIX)
    run("subscribe", place, "--id", "t", "--subscriber", "ann", "--where", "price > 5")
    white = ("--subscriber", "bob", "--where", "isA(wine, 'w:White')", "--ontology", wines, *PREFIX)
    run("subscribe", place, "--id", "u", *white)
    new = cellar(tmp_path / "new.ttl", **NEW)
    said = refused("ontology", "load", new, "--registry", place, *PREFIX)
    assert "subscriptions that can be expressed with this ontology; got 1 subscription that cannot: 'bob/u' (" in said
    assert "'w:White'" in said
    with tg.Registry(place) as registry:
        assert registry.version == 3
    result = run("ontology", "load", new, "--registry", place, *PREFIX, "--keep")
    assert result.stdout == "1 subscription has a new meaning; version 4, 3 in all\n"
    assert result.stderr.startswith("warning: subscription 'bob/u' (expected a term of the ontology")
    assert result.stderr.endswith(") keeps the meaning that it had\n")
    run("unsubscribe", place, "bob/u")
    facts = orjson.loads(run("ontology", "load", new, "--registry", place, *PREFIX, "--json").stdout)
    assert facts == {"renewed": 0, "subscriptions": 2, "version": 5, "kept": []}
    run("subscribe", place, "--id", "u", *white)
    facts = orjson.loads(run("ontology", "load", new, "--registry", place, *PREFIX, "--keep", "--json").stdout)
    assert [one["id"] for one in facts["kept"]] == ["bob/u"]
    with tg.Registry(place) as registry:
        assert {s.id: s.where for s in registry}["s"] == RED
        assert ["w:syrah" in row.where for row in registry.rows(0, 4) if row.id == "s"] == [False, True]


def test_load_what_a_config_file_names(tmp_path, wines):
    path = config(tmp_path, CONFIG + SECTION)
    run("subscribe", path, "--id", "s", "--subscriber", "ann", "--where", RED)
    assert run("ontology", "load", "--registry", path).stdout.startswith("0 subscriptions have a new meaning")
    cellar(wines, **NEW)
    assert run("ontology", "load", "--registry", path).stdout.startswith("1 subscription has a new meaning")
    other = cellar(tmp_path / "other.ttl", **OLD)
    run("ontology", "load", other, "--registry", path)  # with the prefixes of the section
    with tg.Registry(tmp_path / "registry.db") as registry:
        assert registry.version == 3


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("cellar.ttl", "--registry", "no.db"), "a registry that exists; got 'no.db'"),
        (("--registry", "no.db"), "files of an ontology, or a CONFIG file that has some in its section [ontology]"),
        (("--registry", "pipeline.toml"), "files of an ontology, or a CONFIG file that has some"),
        (("no.ttl", "--registry", "pipeline.toml"), "a file of RDF; got No such file"),
    ],
)
def test_load_what_cannot_be(tmp_path, wines, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    config(tmp_path)
    assert says in refused("ontology", "load", *arguments)


# --- run ------------------------------------------------------------------------------------------------------------


def test_a_run_renews_when_it_starts(tmp_path, spark, wines):
    text = CONFIG.replace('type = "parquet"\npath = "notifications"', 'type = "console"') + "patterns = false\n"
    records = [("s", RED), ("u", "isA(wine, 'w:White')"), ("v", "wine = 'w:syrah'")]
    path = config(tmp_path, text + SECTION)
    for id, where in records:
        run("subscribe", path, "--id", id, "--subscriber", "ann", "--where", where)
    run("publish", path, lines(tmp_path / "p.jsonl", [MERLOT, SYRAH]))  # while the old meaning holds
    cellar(wines, **NEW)
    result = run("run", path, "--available-now")
    assert told(result.stdout) == [("ann/s", "p1"), ("ann/v", "p2")]
    assert "the ontology gives 1 subscription another meaning than before\n" in result.stderr
    assert "warning: subscription 'ann/u' (expected a term of the ontology" in result.stderr
    later = [SYRAH | {"id": "p3"}, MERLOT | {"id": "p4", "wine": "w:riesling"}]
    run("publish", path, lines(tmp_path / "q.jsonl", later))
    path.write_text(text)  # what is in the registry needs no ontology
    result = run("run", path, "--available-now")
    assert told(result.stdout) == [("ann/s", "p3"), ("ann/u", "p4"), ("ann/v", "p3")]
    assert "ontology" not in result.stderr


def told(output: str) -> list[tuple[str, str]]:
    rows = [orjson.loads(line) for line in output.splitlines()]
    return sorted((row["subscription_id"], *row["publication_ids"]) for row in rows)
