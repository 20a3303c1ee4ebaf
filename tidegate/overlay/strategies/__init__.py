"""The strategies of an overlay, one file each. All but ``covering`` are those of Table II of Jurca et al."""

from __future__ import annotations

from tidegate.overlay.strategies.centralized import Centralized
from tidegate.overlay.strategies.covering import Covering
from tidegate.overlay.strategies.filter_split_forward import FilterSplitForward
from tidegate.overlay.strategies.multi_join import MultiJoin
from tidegate.overlay.strategies.naive import Naive
from tidegate.overlay.strategies.operator_placement import OperatorPlacement

__all__ = [
    "STRATEGIES",
    "Centralized",
    "Covering",
    "FilterSplitForward",
    "MultiJoin",
    "Naive",
    "OperatorPlacement",
]

STRATEGIES = {
    strategy.name: strategy
    for strategy in (Centralized, Naive, OperatorPlacement, MultiJoin, FilterSplitForward, Covering)
}
