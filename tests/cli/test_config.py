"""The TOML file: what it means, and one sentence for each way to get it wrong."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

from tests.cli.commands import CONFIG, config
from tidegate.errors import SettingError
from tidegate.index.shapes import looked_up_with
from tidegate.runs.config import ShapesSection, load
from tidegate.runs.sink_sections import CallbackOutput, ConsoleOutput, KafkaOutput, ParquetOutput, SqlOutput
from tidegate.runs.source_sections import FilesInput, GeneratorInput, KafkaInput, LogInput
from tidegate.shapes.named_shapes import own
from tidegate.shapes.sphere_group import DEFAULT_HOW, ShapeLookup

SOURCE, SUBSCRIPTIONS, SINK, RUN = (f"[{part}" for part in CONFIG.split("\n[")[1:])


def changed(**parts: str) -> str:
    """The file with one section replaced."""
    usual = {"source": SOURCE, "subscriptions": SUBSCRIPTIONS, "sinks": SINK, "run": RUN, "spark": "", "shapes": ""}
    return "\n".join((usual | parts).values())


# --- what it means ----------------------------------------------------------------------------------------------------


def test_the_smallest_file(tmp_path):
    found = load(config(tmp_path))
    assert found.source == LogInput(str(tmp_path / "readings.log"))
    assert found.sinks == (ParquetOutput(str(tmp_path / "notifications"), grouped=True),)
    assert found.subscriptions.registry == str(tmp_path / "registry.db")
    assert found.run.checkpoint == str(tmp_path / "checkpoint")
    assert (found.run.interval, found.run.lateness, found.run.metrics) == (0.0, 5.0, None)
    assert not found.needs_kafka


def test_every_source_and_sink(tmp_path):
    def source(text):
        return load(config(tmp_path, changed(source=f"[source]\n{text}"))).source

    assert source('type = "log"\npath = "/l"\nrows = 9\npieces = 3') == LogInput("/l", 9, 3)
    assert source('type = "files"\npath = "s3://b/in"\nformat = "csv"\nfiles = 2') == FilesInput("s3://b/in", "csv", 2)
    assert source('type = "generator"\npath = "/g"\nseed = 0\nrate = 5') == GeneratorInput("/g", 0, 5.0)
    assert source(
        'type = "kafka"\nservers = "a:1"\ntopic = "t"\n[source.options]\nmaxOffsetsPerTrigger = 7'
    ) == KafkaInput("a:1", "t", options={"maxOffsetsPerTrigger": "7"})
    text = """
[[sinks]]
type = "parquet"
path = "out"
grouped = false
[[sinks]]
type = "console"
[[sinks]]
type = "sql"
url = "postgresql://ann@db/notes"
[[sinks]]
type = "kafka"
servers = "a:1"
topic = "out"
[[sinks]]
type = "callback"
function = "os.path:join"
"""
    found = load(config(tmp_path, changed(sinks=text)))
    parquet, console, sql, kafka, callback = found.sinks
    assert parquet == ParquetOutput(str(tmp_path / "out"), grouped=False)
    assert (console, sql) == (ConsoleOutput(), SqlOutput("postgresql://ann@db/notes"))
    assert kafka == KafkaOutput("a:1", "out")
    assert isinstance(callback, CallbackOutput)
    assert found.needs_kafka


def test_the_other_sections(tmp_path):
    text = changed(
        subscriptions='[subscriptions]\nregistry = "mariadb://ann@db/subs"\n'
        'storage = "hdfs://n/shelf"\nfile = "s.jsonl"',
        run='[run]\ncheckpoint = "hdfs://n/c"\nquarantine = "bad"\n'
        'interval = 0.5\nlateness = 0\nmetrics = "0.0.0.0:9464"',
        spark='[spark]\nmaster = "local[1]"\nmemory = "2g"\npackages = ["a:b:1"]\n'
        '[spark.settings]\nspark.ui.enabled = true\n"spark.task.maxFailures" = 8',
    )
    found = load(config(tmp_path, text))
    assert found.subscriptions.storage == "hdfs://n/shelf"
    assert found.subscriptions.file == str(tmp_path / "s.jsonl")
    assert found.run.checkpoint == "hdfs://n/c"
    assert found.run.quarantine == str(tmp_path / "bad")
    assert (found.run.interval, found.run.lateness, found.run.metrics) == (0.5, 0.0, ("0.0.0.0", 9464))
    assert (found.spark.master, found.spark.memory, found.spark.packages) == ("local[1]", "2g", ("a:b:1",))
    assert found.spark.settings == {"spark.ui.enabled": "true", "spark.task.maxFailures": "8"}


def test_shapes_are_known_while_they_are_used(tmp_path):
    usual = load(config(tmp_path)).shapes
    assert ShapeLookup(usual.transform, usual.structure, usual.features) == DEFAULT_HOW
    (tmp_path / "mine.csv").write_text("my-shape, 0, 5, 1\n")
    text = '[shapes]\nfile = "mine.csv"\ntransform = "paa"\nstructure = "rstar"\nfeatures = 64'
    found = load(config(tmp_path, changed(shapes=text))).shapes
    assert found == ShapesSection(str(tmp_path / "mine.csv"), "paa", "rstar", 64)
    with found.used():
        assert [shape.points for shape in own()] == [(0, 5, 1)]
        assert looked_up_with() == ShapeLookup("paa", "rstar", 64)
    assert own() == []
    assert looked_up_with() == DEFAULT_HOW
    (tmp_path / "mine.csv").write_text("my-shape, 0, 5, x\n")
    with pytest.raises(SettingError, match=r"numbers after the name; got 'x'; at .*mine.csv, line 1"), found.used():
        pytest.fail("it was used")
    assert looked_up_with() == DEFAULT_HOW


@pytest.mark.parametrize(
    ("spark", "packages"),
    [
        ("", (f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version('pyspark')}",)),
        ('[spark]\npackages = ["my:connector:1"]', ("my:connector:1",)),
        ('[spark.settings]\nspark.jars = "connector.jar"', ()),
    ],
)
def test_kafka_brings_its_connector_unless_another_is_named(tmp_path, monkeypatch, spark, packages):
    from tidegate.pipeline.from_config import session_of

    asked = {}
    monkeypatch.setattr("tidegate.pipeline.from_config.session", lambda **options: asked.update(options))
    kafka = '[source]\ntype = "kafka"\nservers = "localhost:9092"\ntopic = "readings"'
    session_of(load(config(tmp_path, changed(spark=spark, source=kafka))))
    assert asked["packages"] == packages
    found = load(config(tmp_path, changed(spark=spark)))
    session_of(found)
    assert asked["packages"] == found.spark.packages


def test_the_function_of_a_callback_is_found_beside_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "told_by_tidegate.py").write_text("def told(batch, found):\n    pass\n\nnumber = 3\n")

    def find(name):
        sink = f'[[sinks]]\ntype = "callback"\nfunction = "{name}"'
        load(config(tmp_path, changed(sinks=sink))).find_functions()

    find("told_by_tidegate:told")
    for name, words in (
        ("told_by_tidegate:tell", "a function that Python finds; got 'told_by_tidegate:tell' (module"),
        ("no_such_module:told", "a function that Python finds; got 'no_such_module:told' (No module"),
        ("told_by_tidegate:number", "a function; got 'told_by_tidegate:number', a int"),
    ):
        with pytest.raises(SettingError) as caught:
            find(name)
        assert words in str(caught.value)
        assert "; at sinks[0].function of " in str(caught.value)
    sys.modules.pop("told_by_tidegate")


# --- what is wrong with it --------------------------------------------------------------------------------------------

WRONG = [
    ("nonsense", "expected TOML; got Expected '='"),
    ("", "expected a key type; got none; at source.type"),
    (changed(source="[source]\npath = 'x'"), "expected a key type; got only path; at source.type"),
    (
        changed(source='[source]\ntype = "kafak"'),
        "one of files, generator, kafka, log; got 'kafak' (did you mean kafka?); at source.type",
    ),
    (changed(source="[source]\ntype = 7"), "one of files, generator, kafka, log; got 7; at source.type"),
    (changed(source='[source]\ntype = "log"'), "a key path; got only type; at source.path"),
    (
        changed(source=f"{SOURCE}\npieced = 4"),
        "a key of keep_bytes, keep_seconds, path, pieces, rows, starting, type; "
        "got 'pieced' (did you mean pieces?); at source.pieced",
    ),
    (changed(source=f"{SOURCE}\nrows = 0"), "a whole number from 1; got 0; at source.rows"),
    (changed(source=f"{SOURCE}\nrows = true"), "a whole number from 1; got True; at source.rows"),
    (changed(source=f"{SOURCE}\nrows = 1.5"), "a whole number from 1; got 1.5; at source.rows"),
    (changed(source='[source]\ntype = "log"\npath = ""'), "text that is not empty; got ''; at source.path"),
    (changed(source='[source]\ntype = "log"\npath = ["x"]'), "text that is not empty; got ['x']; at source.path"),
    (
        changed(source='[source]\ntype = "files"\npath = "."\nformat = "cvs"'),
        "one of csv, jsonl, parquet; got 'cvs' (did you mean csv?); at source.format",
    ),
    (changed(source='[source]\ntype = "generator"\npath = "g"\nrate = 0'), "a number above 0; got 0; at source.rate"),
    (
        changed(source='[source]\ntype = "generator"\npath = "g"\nrate = inf'),
        "a number of 0 or more; got inf; at source.rate",
    ),
    (
        changed(source='[source]\ntype = "generator"\npath = "g"\nseed = -1'),
        "a whole number from 0; got -1; at source.seed",
    ),
    (changed(source='source = "log"'), "a section [source]; got 'log'; at source"),
    (
        changed(source='[source]\ntype = "kafka"\nservers = "a:1"\ntopic = "t"\noptions = [1]'),
        "a section [source.options]; got [1]",
    ),
    (
        changed(source='[source]\ntype = "kafka"\nservers = "a:1"\ntopic = "t"\noptions = {a = [1]}'),
        "text, a number, true or false; got [1]; at source.options.a",
    ),
    (changed(subscriptions=""), "a key registry; got none; at subscriptions.registry"),
    (
        changed(subscriptions="[subscriptions]\nregistry = 5"),
        "text that is not empty; got 5; at subscriptions.registry",
    ),
    (changed(sinks=""), "at least one section [[sinks]]; got []; at sinks"),
    (changed(sinks='[sinks]\ntype = "console"'), "at least one section [[sinks]]; got {'type': 'console'}; at sinks"),
    (changed(sinks='[[sinks]]\ntype = "paquet"'), "got 'paquet' (did you mean parquet?); at sinks[0].type"),
    (
        changed(sinks=f'{SINK}\n[[sinks]]\ntype = "sql"\nuri = "n.db"'),
        "a key of type, url; got 'uri' (did you mean url?); at sinks[1].uri",
    ),
    (changed(sinks=f'{SINK}\ngrouped = "yes"'), "true or false; got 'yes'; at sinks[0].grouped"),
    (
        changed(sinks='[[sinks]]\ntype = "callback"\nfunction = "print"'),
        "a function as \"module:name\"; got 'print'; at sinks[0].function",
    ),
    (changed(sinks='[[sinks]]\npath = "x"'), "a key type; got only path; at sinks[0].type"),
    (changed(run=""), "a key checkpoint; got none; at run.checkpoint"),
    (changed(run=f'{RUN}\ninterval = "1s"'), "a number of 0 or more; got '1s'; at run.interval"),
    (changed(run=f"{RUN}\nlateness = -1"), "a number of 0 or more; got -1; at run.lateness"),
    (changed(run=f"{RUN}\nmetrics = 70000"), "a port from 0 to 65535"),
    (changed(run=f'{RUN}\nmetrics = "localhost"'), "a port from 0 to 65535"),
    (changed(spark='[spark]\npackages = "a:b:1"'), "a list of text; got 'a:b:1'; at spark.packages"),
    (changed(spark="[spark]\npackages = [1]"), "text that is not empty; got 1; at spark.packages.0"),
    (
        changed(spark="[spark.setings]\na = 1"),
        "a key of master, memory, packages, settings; got 'setings' (did you mean settings?); at spark.setings",
    ),
    (
        changed(spark="[sparks]"),
        "one of costs, issuers, mqtt, ontology, run, serve, shapes, sinks, source, spark, subscriptions, traces, "
        "webhooks; got 'sparks' (did you",
    ),
    (
        changed(shapes='[shapes]\ntransform = "pca"'),
        "one of fft, haar, paa as transform; got 'pca'; at shapes.transform",
    ),
    (changed(shapes='[shapes]\ntransform = ["fft"]'), "text that is not empty; got ['fft']; at shapes.transform"),
    (
        changed(shapes='[shapes]\nstructure = "tree"'),
        "cascade, scan, interval, rstar as structure; got 'tree'; at shapes.",
    ),
    (changed(shapes="[shapes]\nfeatures = 0"), "a whole number from 1; got 0; at shapes.features"),
    (changed(shapes="[shapes]\nfeatures = 65"), "a number of features from 2 to 64; got 65; at shapes.features"),
    (changed(shapes="[shapes]\nfile = 7"), "text that is not empty; got 7; at shapes.file"),
    (f'shapes = "mine.toml"\n{changed()}', "a section [shapes]; got 'mine.toml'; at shapes"),
]


@pytest.mark.parametrize(("text", "words"), WRONG)
def test_a_mistake_is_one_sentence_with_its_place(tmp_path, text, words):
    path = config(tmp_path, text)
    with pytest.raises(SettingError) as caught:
        load(path)
    message = str(caught.value)
    assert words in message
    assert message.endswith(str(path))
    assert "\n" not in message


def test_a_file_that_is_none(tmp_path):
    with pytest.raises(SettingError, match="a TOML file or a data directory; got No such file or directory"):
        load(tmp_path / "nothing.toml")
    path = tmp_path / "latin.toml"
    path.write_bytes(b"# caf\xe9\n")
    with pytest.raises(SettingError, match="text in UTF-8; got the byte 0xe9"):
        load(path)


def test_a_file_is_read_without_spark(tmp_path):
    path = config(tmp_path)
    code = (
        "import sys, pathlib; import tidegate.cli.app; from tidegate.runs.config import load; "
        f"load(pathlib.Path({str(path)!r})).subscriptions.open().close(); sys.exit('pyspark' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
