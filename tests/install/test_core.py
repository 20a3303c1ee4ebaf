"""The core alone: what it does without any extra, and how it names the extra that something else needs."""

from __future__ import annotations

import re
import tomllib

import pytest

import tidegate as tg
from tests.cli.commands import CONFIG, PUBLICATIONS, SUBSCRIPTIONS, config, lines, refused
from tests.drawn_publications import NAMESPACE, ONTOLOGY
from tests.install.core import OPTIONAL, ROOT, commands, script
from tidegate.extras import PACKAGES, missing, require
from tidegate.ontologies import current

#: The README's first example.
FIRST = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)[0]
PRINTED = "".join(f"{line.split('# prints ', 1)[1]}\n" for line in FIRST.splitlines() if "# prints " in line)
_STORED = """
from datetime import UTC, datetime
import tidegate as tg

p = tg.Publication("p1", "z7", datetime(2026, 11, 15, 8, tzinfo=UTC), {"no2": 45.0, "kind": "vin:Chianti"})
with tg.Log("readings.log") as log:
    log.append([p])
with tg.Registry("registry.db") as registry:
    registry.subscribe(tg.Subscription("s1", "ann", "no2 > 40"))
    engine = tg.Engine(row.meant for row in registry.rows(0, registry.version))
print(sorted(n.subscription for n in engine.publish([p])))
absent = {name for name in sys.modules if name.partition(".")[0] in %r}
assert not absent, absent
"""


def test_the_first_example_of_the_readme_runs():
    ran = script(FIRST)
    assert (ran.returncode, ran.stdout) == (0, PRINTED), ran.stderr


def test_a_log_and_a_registry_need_no_extra_and_neither_do_terms_that_were_looked_up(tmp_path):
    with current.use(None):
        tg.load_ontology(ONTOLOGY, prefixes={"vin": NAMESPACE})
        with tg.Registry(tmp_path / "registry.db") as registry:
            registry.subscribe(tg.Subscription("red", "bob", "moreSpecific(kind, 'vin:Wine')"))
            registry.subscribe(tg.Subscription("not", "bob", "NOT moreSpecific(kind, 'vin:Wine')"))
    ran = script(_STORED % (OPTIONAL,), cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (0, "['red', 's1']\n"), ran.stderr


def test_commands_that_need_no_extra(tmp_path):
    subscriptions = lines(tmp_path / "subscriptions.jsonl", SUBSCRIPTIONS)
    publications = lines(tmp_path / "publications.jsonl", PUBLICATIONS)
    one = '{"id": "p1", "source": "z7", "time": "2026-11-15T08:00:00Z", "no2": 45}'
    process = config(tmp_path, CONFIG.replace("[run]", '[run]\nrunner = "process"')).rename(tmp_path / "process.toml")
    file = config(tmp_path)
    done = commands(
        ["--help"],
        ["check", subscriptions],
        ["match", subscriptions, publications],
        ["explain", subscriptions, "s1", one],
        ["functions"],
        ["shapes"],
        ["demo", "--write", tmp_path / "valley", "--readings", "50"],
        ["subscribe", file, subscriptions],
        ["publish", file, publications],
        ["list", file],
        ["status", file],
        ["run", process, "--available-now"],
        ["warmup"],
        cwd=tmp_path,
    )
    assert [(code, told) for code, _, told, _ in done if code] == []
    assert "3 good, 0 wrong" in done[1][1]
    assert done[2][1].count("\n") == 4
    assert done[3][1].startswith("s1 matches p1")
    assert "Spark is not installed" in done[-1][2]


def test_commands_that_need_an_extra_say_which_in_one_line(tmp_path):
    subscriptions = lines(tmp_path / "subscriptions.jsonl", SUBSCRIPTIONS)
    publications = lines(tmp_path / "publications.jsonl", PUBLICATIONS)
    readings = tmp_path / "readings.csv"
    readings.write_text("source,time,value\n" + "".join(f"z7,2026-11-15T08:0{i}:00Z,{i % 3}\n" for i in range(9)))
    tolerance = ["shapes", "tolerance", "--pattern", "0,1,0", "--history", readings]
    rstar = config(tmp_path, CONFIG + '\n[shapes]\nstructure = "rstar"\n').rename(tmp_path / "rstar.toml")
    asked = {
        'spark, for tidegate run (or runner = "process" in the section [run], which needs none)': [
            "run",
            config(tmp_path),
        ],
        "spark, for tidegate demo": ["demo"],
        "spark, for tidegate rehearse": ["rehearse", publications, "--where", "no2 > 40"],
        "ontology, for an ontology": ["ontology", "show", ONTOLOGY],
        "ontology, for an ontology ": ["match", subscriptions, publications, "--ontology", ONTOLOGY],
        "plots, for a plot": [*tolerance, "--plot", tmp_path / "plot.svg"],
        "structures, for the structure rstar": ["run", rstar],
    }
    for expected, (code, _, told, error) in zip(asked, commands(*asked.values(), cwd=tmp_path), strict=True):
        extra, _, what = expected.strip().partition(", ")
        last = told.splitlines()[-1]
        assert code == 2, (expected, error, told)
        assert last.startswith(
            f"tidegate: expected what pip install 'tidegate[{extra}]' brings, {what}; got no package "
        )
        assert "Traceback" not in told
    assert not (tmp_path / "registry.db").exists()  # nothing was done before


def test_metrics_are_of_an_extra_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr("tidegate.extras.find_spec", lambda name: None if name == "prometheus_client" else name)
    told = refused("run", config(tmp_path), "--metrics", "9000")
    assert "pip install 'tidegate[service]' brings, for metrics; got no package prometheus_client" in told


@pytest.mark.parametrize(
    ("text", "extra"),
    [
        ("tg.match", "spark"),
        ("tg.session", "spark"),
        ("tg.connect", "client"),
        (
            "from tidegate.gateway.issuers import Issuers\n"
            "from tidegate.runs.issuer_sections import IssuerSection\n"
            "Issuers()\n"
            "Issuers([IssuerSection('https://login.example', ('broker',))])",
            "jwt",
        ),
        (f"tg.load_ontology({str(ONTOLOGY)!r})", "ontology"),
        ("from tidegate.shapes.sphere_group import ShapeLookup; ShapeLookup('fft', 'rstar').checked()", "structures"),
    ],
)
def test_names_that_need_an_extra_say_which(text, extra):
    ran = script(f"import tidegate as tg\n{text}")
    last = ran.stderr.splitlines()[-1]
    assert last.startswith(f"tidegate.errors.SettingError: expected what pip install 'tidegate[{extra}]' brings, for ")
    assert ran.stderr.count("Traceback") == 1


def test_the_extras_are_those_of_the_project_file():
    """Each has its packages, and ``all`` has every other one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = project["optional-dependencies"]
    (everything,) = declared.pop("all")
    assert set(re.findall(r"\w+", everything)) == {"tidegate", *declared}
    assert PACKAGES.keys() == declared.keys() - {"postgresql", "mariadb", "oracle"}
    for extra, packages in PACKAGES.items():
        told = " ".join(declared[extra]).replace("-", "_")
        assert all(package.rpartition(".")[2] in told for package in packages), extra
        assert not missing(extra)
        require(extra, "a test")
