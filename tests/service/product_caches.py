"""What scripts need not do again for each data directory: compile statements of SQL, and read files that never change.

A process of the product does both once. Scripts start processes several times each, so half of their time would go
there.
"""

from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine

from tidegate.index.versioned import Layer
from tidegate.store import database

MOST_LAYERS = 64


class SharedStatements(dict[Any, Any]):
    """Statements by all that they were compiled for but the object of the dialect, of which each engine has its own."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get((key[0].name, *key[1:]), default)

    def __setitem__(self, key: Any, compiled: Any) -> None:
        super().__setitem__((key[0].name, *key[1:]), compiled)


STATEMENTS = SharedStatements()


def engine_of(*arguments: Any, **settings: Any) -> Any:
    return create_engine(*arguments, **settings).execution_options(compiled_cache=STATEMENTS)


@cache
def opened_layers() -> "OrderedDict[Path, Layer]":
    return OrderedDict()


def remembering(opened: Callable[[Path], Layer]) -> Callable[[Path], Layer]:
    """A layer is written once, and has a name that no other one has."""

    def layer_at(directory: Path) -> Layer:
        known = opened_layers()
        if directory not in known:
            known[directory] = opened(directory)
            if len(known) > MOST_LAYERS:
                known.popitem(last=False)
        return known[directory]

    return layer_at


def use_caches(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(database, "create_engine", engine_of)
    patch.setattr(Layer, "open", staticmethod(remembering(Layer.open)))
