"""An entry point with which the harness itself is tested. Imports little, so that a worker with it starts fast."""

from __future__ import annotations

import os
import signal

from tests.fuzz.entry_point import ACCEPTED, EntryPoint, WrongAnswer
from tidegate.errors import ParseError


class Odd(EntryPoint):
    """Refuses, answers wrongly, is slow, hangs, or dies, as its input says."""

    name = "odd"

    def seeds(self):
        return [b"fine"]

    def draw(self, random):
        return random.choice([b"fine", b"fine", b"refused"])

    def input(self, seed, number):
        return {3: b"wrong", 5: b"dies", 7: b"raises", 9: b"slow"}.get(number, super().input(seed, number))

    def check(self, data, clock, scratch):
        match data:
            case b"refused":
                raise ParseError("something", "nothing")
            case b"wrong":
                raise WrongAnswer("2 and 2 are 5")
            case b"raises":
                raise KeyError("x")
            case b"dies":
                os.kill(os.getpid(), signal.SIGSEGV)
            case b"slow":
                with clock.within(1e-9, "counting"):
                    sum(range(1000))
        return ACCEPTED
