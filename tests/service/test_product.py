"""The product does what the oracle says, for drawn scripts: with the runner in process."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.parts.profiles import examples
from tests.service.comparison import compare
from tests.service.product import process_product
from tests.service.scripts import scripts
from tests.service.steps import Script

MEMORY_DISK = Path("/dev/shm")
"""Where files cost no wait for a disk: what is compared survives only a process that is killed."""
PARTS, OF_EACH = 10, 500


def follows_the_oracle(script: Script) -> None:
    with (
        TemporaryDirectory(dir=MEMORY_DISK if MEMORY_DISK.is_dir() else None) as directory,
        process_product(Path(directory)).used() as product,
    ):
        compare(script, product)


@examples(80)
@given(scripts())
def test_the_product_follows_the_oracle(script):
    follows_the_oracle(script)


@pytest.mark.thorough
@pytest.mark.parametrize("part", range(PARTS))
def test_the_product_follows_the_oracle_for_thousands_of_scripts(part):
    @settings(
        max_examples=OF_EACH,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @seed(part)
    @given(scripts())
    def follows(script):
        follows_the_oracle(script)

    follows()
