"""The product does what the oracle says, for drawn scripts, with both runners.

Most scripts are walked with the runner in process and with the stages of the runner *spark* that need no Spark. A query
of Spark takes a second or more for each cut, so few are walked with the whole of it.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.parts.profiles import examples
from tests.service.comparison import compare
from tests.service.product import Product, Runner
from tests.service.product_lane import LaneRunner
from tests.service.product_runner import ProcessRunner
from tests.service.scripts import scripts
from tests.service.steps import Script
from tidegate.store.data_directory import DataDirectory
from tidegate.store.registry import Registry

MEMORY_DISK = Path("/dev/shm")
"""Where files cost no wait for a disk: what is compared survives only processes that are killed."""
RUNNERS: dict[str, tuple[str, Callable[[DataDirectory, Registry, float], Runner]]] = {
    "process": ("process", ProcessRunner),
    "lane": ("spark", LaneRunner),
}
OF_A_PART = 500
#: Enough for 5,000 scripts with the runner in process, and some for the other one.
PARTS = [*(("process", part) for part in range(10)), *(("lane", part) for part in range(2))]


def follows_the_oracle(name: str, runner: Callable[[DataDirectory, Registry, float], Runner], script: Script) -> None:
    with (
        TemporaryDirectory(dir=MEMORY_DISK if MEMORY_DISK.is_dir() else None) as directory,
        Product(Path(directory), name, runner).used() as product,
    ):
        compare(script, product)


def all_follow_the_oracle(
    name: str, runner: Callable[[DataDirectory, Registry, float], Runner], count: int, part: int
) -> None:
    """Walk so many scripts, always the same of a part."""

    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @seed(part)
    @given(scripts())
    def follows(script: Script) -> None:
        follows_the_oracle(name, runner, script)

    follows()


@examples(40)
@given(scripts())
def test_the_runner_in_process_follows_the_oracle(script):
    follows_the_oracle(*RUNNERS["process"], script)


@examples(12)
@given(scripts())
def test_the_stages_of_spark_follow_the_oracle(script):
    follows_the_oracle(*RUNNERS["lane"], script)


@pytest.mark.thorough
@pytest.mark.parametrize(("runner", "part"), PARTS)
def test_thousands_of_scripts_follow_the_oracle(runner, part):
    all_follow_the_oracle(*RUNNERS[runner], OF_A_PART, part)


@pytest.mark.spark
@pytest.mark.parametrize("count", [1, pytest.param(24, marks=pytest.mark.thorough)])
def test_queries_of_spark_follow_the_oracle(spark, count):
    from tests.service.product_flow import FlowRunner

    all_follow_the_oracle("spark", partial(FlowRunner, spark), count, count)
