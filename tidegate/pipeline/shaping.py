"""What all processes of a pipeline must know of shapes: users' own, and what shapes are looked up with.

Expressions are compiled, and segments built, by whoever needs them first: the driver, the process that plans batches of
the log, or a worker. What the driver knows therefore travels with the work, as plain data.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import orjson

from tidegate.index.shapes import look_up_with, looked_up_with
from tidegate.shapes.group import DEFAULT_HOW, How
from tidegate.shapes.named import Named, find, own, use

__all__ = ["Shaping"]


class Shaping(NamedTuple):
    """Users' own shapes, and how shapes are looked up."""

    own: tuple[Named, ...]
    how: How

    @staticmethod
    def here() -> Shaping:
        """What this process knows."""
        return Shaping(tuple(own()), looked_up_with())

    @contextmanager
    def known(self) -> Iterator[None]:
        """Have this process know it while something is prepared."""
        look_up_with(self.how)  # and afterwards too, since large merges go on aside
        if all(find(shape.name) == shape for shape in self.own):  # as in the driver, where threads share the library
            yield
            return
        with use(*self.own):  # a worker may serve several queries, each with a library of its own
            yield

    def text(self) -> str:
        """As an option of a source, which is text. A transform that was fitted stays behind: any gives the answers."""
        shapes = [(shape.name, shape.points, shape.meaning) for shape in self.own]
        return orjson.dumps({"own": shapes, "how": self.how.plain()}).decode()

    @staticmethod
    def of(text: str | None) -> Shaping:
        """What the text says; nothing where there is none."""
        if text is None:
            return Shaping((), DEFAULT_HOW)
        given = orjson.loads(text)
        how = How(**given["how"]) if given["how"]["transform"] else DEFAULT_HOW
        return Shaping(tuple(Named(name, tuple(points), meaning) for name, points, meaning in given["own"]), how)
