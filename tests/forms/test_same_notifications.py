"""Twenty subscriptions over the same readings in every form and every way are told the same."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from importlib.util import find_spec

import numpy as np
import orjson
import pyarrow.parquet as pq
import pytest

from tests.forms.forms import FIELDS, FILES, IN_MEMORY
from tests.forms.readings import BEGIN, SENSORSCOPE, SUBSCRIPTIONS, made_up, of_sensorscope
from tests.forms.ways import by_command, by_engine, by_match, by_run
from tests.registered import registered
from tidegate.cli.input_files import InputFiles, written
from tidegate.time_zones import TimeZone

needs_sensorscope = pytest.mark.skipif(not SENSORSCOPE.exists(), reason="../shared/data/sensorscope is not here")


@pytest.fixture(scope="module")
def readings():
    return made_up(np.random.default_rng(17))


@pytest.fixture(scope="module")
def expected(readings):
    """What an engine tells of objects; every subscription is told of something, and none of everything."""
    found = by_engine(SUBSCRIPTIONS, IN_MEMORY["objects"](readings))
    counts = Counter(one[1] for one in found)
    assert all(0 < counts[s.id] < len(readings) for s in SUBSCRIPTIONS), counts
    return found


@pytest.mark.parametrize("form", IN_MEMORY)
def test_an_engine_tells_the_same_of_every_form(form, readings, expected):
    if form in ("polars", "geopandas") and find_spec(form) is None:
        pytest.skip(f"{form} is not installed")
    assert by_engine(SUBSCRIPTIONS, IN_MEMORY[form](readings)) == expected


@pytest.mark.parametrize("kind", FILES)
def test_the_command_tells_the_same_of_every_file(kind, readings, expected, tmp_path):
    write, zone = FILES[kind]
    assert by_command(SUBSCRIPTIONS, write(readings, tmp_path), zone) == expected


@pytest.mark.parametrize("kind", FILES)
def test_a_rehearsal_reads_the_same_from_every_file(kind, readings, tmp_path):
    write, zone = FILES[kind]
    (folder,) = written(InputFiles([], [write(readings, tmp_path)]), tmp_path / "history", TimeZone.named(zone))
    found = pq.read_table(folder)
    assert found.column("time").to_pylist() == [one["time"] for one in readings]
    places = [{"lon": one["longitude"], "lat": one["latitude"]} for one in readings]
    assert found.column("location").to_pylist() == places
    attributes = [{name: value for name, value in one.items() if name not in FIELDS} for one in readings]
    for text, given in zip(found.column("attributes").to_pylist(), attributes, strict=True):
        assert {name: value for name, value in orjson.loads(text).items() if value is not None} == given


@pytest.mark.parametrize("kind", ["parquet of nanoseconds", "parquet of pandas"])
def test_spark_tells_the_same_of_parquet(kind, readings, expected, tmp_path, spark):
    write, zone = FILES[kind]
    frame = spark.read.parquet(str(write(readings, tmp_path)))
    assert by_match(spark, SUBSCRIPTIONS, frame, zone) == expected


def test_spark_tells_the_same_of_columns(readings, expected, spark):
    frame = spark.createDataFrame(IN_MEMORY["arrow_of_parts"](readings))
    assert by_match(spark, SUBSCRIPTIONS, frame) == expected


@pytest.mark.parametrize("kind", ["csv of local times", "jsonl"])
def test_a_run_tells_the_same_of_files(kind, readings, tmp_path, spark):
    write, zone = FILES[kind]
    expected = by_engine(list(map(registered, SUBSCRIPTIONS)), IN_MEMORY["objects"](readings))
    assert by_run(SUBSCRIPTIONS, write(readings, tmp_path), zone, tmp_path / "run") == expected


@needs_sensorscope
@pytest.mark.thorough
def test_real_readings_are_told_of_alike(tmp_path, spark):
    readings = of_sensorscope(BEGIN, BEGIN + timedelta(hours=12))
    expected = by_engine(SUBSCRIPTIONS, IN_MEMORY["objects"](readings))
    told_by_runs = by_engine(list(map(registered, SUBSCRIPTIONS)), IN_MEMORY["objects"](readings))
    assert {one[1] for one in expected} == {s.id for s in SUBSCRIPTIONS}
    for name, form in IN_MEMORY.items():
        if find_spec(name) is not None or name not in ("polars", "geopandas"):
            assert by_engine(SUBSCRIPTIONS, form(readings)) == expected, name
    for number, (kind, (write, zone)) in enumerate(FILES.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        file = write(readings, folder)
        assert by_command(SUBSCRIPTIONS, file, zone) == expected, kind
        assert by_run(SUBSCRIPTIONS, file, zone, folder / "run") == told_by_runs, kind
        if file.suffix == ".parquet":
            assert by_match(spark, SUBSCRIPTIONS, spark.read.parquet(str(file)), zone) == expected, kind
