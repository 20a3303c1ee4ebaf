"""The contract of an entry point: it draws inputs, and says of an input whether it was refused or answered rightly."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

ACCEPTED = "accepted"


class WrongAnswer(AssertionError):
    """The input was taken, and what came of it is not right."""


class Slow(NamedTuple):
    """How long a step took, in seconds of processor time, and how long it may take."""

    what: str
    spent: float
    most: float


class Clock:
    """Measures what the product does, in the processor time of this thread: other processes do not count."""

    def __init__(self) -> None:
        self.slowest = Slow("", 0.0, 1.0)

    @contextmanager
    def within(self, most: float, what: str):
        begun = time.thread_time()
        try:
            yield
        finally:
            spent = time.thread_time() - begun
            if spent / most > self.slowest.spent / self.slowest.most:
                self.slowest = Slow(what, spent, most)


class EntryPoint(ABC):
    """One way into the product."""

    name: str
    suffix = ""
    """How the file of an input ends."""

    @abstractmethod
    def seeds(self) -> list[bytes]:
        """Inputs that are as they should be, and accepted."""

    @abstractmethod
    def draw(self, random: Random) -> bytes:
        """An input: as it should be, or nearly, or not at all."""

    @abstractmethod
    def check(self, data: bytes, clock: Clock, scratch: Path) -> str:
        """Give the input to the product: ``ACCEPTED`` or the code of the error. Anything else raised is a finding.

        ``scratch`` is a directory of this process that is there already, in which files may lie from the input before.
        """

    def input(self, seed: int, number: int) -> bytes:
        """The input of that number; the same in every process."""
        return self.draw(Random(f"{self.name}/{seed}/{number}"))
