"""Kinds of claim, as data: what is compared with what. Whether one holds is ``verdicts``' business."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from bench.papers.filter_split_forward.rows import EXACT, JOINS, Series

__all__ = ["Below", "Claim", "Complete", "Level", "Ordered", "Wider"]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """With ``is_goal`` a goal of this project, else a claim of the paper's; ``said`` is short, for a figure."""

    key: str
    figure: int | None
    sentence: str
    said: str
    is_goal: bool = False


@dataclass(frozen=True, kw_only=True)
class Below(Claim):
    """One line is below each of some others by ``low`` to ``high`` per cent, at every count or on their average."""

    setup: str
    metric: str
    less: Series = EXACT
    more: tuple[Series, ...]
    low: float
    high: float = inf
    averaged: bool = False


@dataclass(frozen=True, kw_only=True)
class Ordered(Claim):
    """Every line of a level is above every line of the next one, at every count."""

    setup: str
    metric: str
    levels: tuple[tuple[Series, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Wider(Claim):
    """The reduction against a rival is larger in one set-up than in another."""

    metric: str
    wide: str
    narrow: str
    more: tuple[Series, ...] = JOINS
    less: Series = EXACT


@dataclass(frozen=True, kw_only=True)
class Level(Claim):
    """A share of one line is from ``low`` to ``high`` per cent, at every count or on the average of them."""

    setups: tuple[str, ...]
    metric: str
    series: Series
    low: float
    high: float = 100.0
    averaged: bool = False


@dataclass(frozen=True, kw_only=True)
class Complete(Claim):
    """In every single cell users were told all that they should be told, and nothing else."""

    setups: tuple[str, ...]
    series: tuple[Series, ...]
