"""What the paper claims (Jurca et al., §VI-B to F) and the goals of this project, as data.

Percentages are as the paper prints them; a number without a range is given the range that rounds to it.
"""

from __future__ import annotations

from bench.papers.filter_split_forward.claim_kinds import Below, Claim, Complete, Level, Ordered, Wider
from bench.papers.filter_split_forward.rows import CENTRALIZED, EXACT, JOINS, NAIVE, PLACEMENT, PROBABILISTIC, SETUPS

__all__ = ["CLAIMS", "GOALS", "PAPER"]

SUBSCRIPTIONS, PUBLICATIONS = "subscription_load", "publication_load"
_PAIRWISE = (PLACEMENT, *JOINS)
_DISTRIBUTED = (NAIVE, *_PAIRWISE)
_BOTH = "the pairwise strategies"


def _load(figure: int, setup: str, low: float, high: float, sentence: str) -> tuple[Below, ...]:
    """A claim about the publication load, held against each of the pairings of multi-join by itself."""
    return tuple(
        Below(
            key=f"publications-{setup}-{rival.strategy}",
            figure=figure,
            sentence=f"{sentence} Against {rival.name}.",
            said=f"{low:g}–{high:g} % below multi-join",
            setup=setup,
            metric=PUBLICATIONS,
            more=(rival,),
            low=low,
            high=high,
        )
        for rival in JOINS
    )


def _orders(figure: int, setup: str) -> tuple[Ordered, Ordered]:
    """The order of the four distributed strategies that §VI-B expects, in a pair of figures."""
    return (
        Ordered(
            key=f"order-subscriptions-{setup}",
            figure=figure,
            sentence="Subscription load: naive is worst, followed by operator placement and multi-join; "
            "filter-split-forward has the smallest.",
            said="naive > operator placement, multi-join > filter-split-forward",
            setup=setup,
            metric=SUBSCRIPTIONS,
            levels=((NAIVE,), _PAIRWISE, (EXACT,)),
        ),
        Ordered(
            key=f"order-publications-{setup}",
            figure=figure + 1,
            sentence="Publication load: naive is worst, then operator placement, then multi-join, then "
            "filter-split-forward.",
            said="naive > operator placement > multi-join > filter-split-forward",
            setup=setup,
            metric=PUBLICATIONS,
            levels=((NAIVE,), (PLACEMENT,), JOINS, (EXACT,)),
        ),
    )


PAPER: tuple[Claim, ...] = (
    Below(
        key="subscriptions-small",
        figure=4,
        sentence="Filter-split-forward forwards on average 18 % fewer subscriptions than the strategies with pairwise "
        "covering.",
        said=f"on average 18 % below {_BOTH}",
        setup="small",
        metric=SUBSCRIPTIONS,
        more=_PAIRWISE,
        low=17.5,
        high=18.5,
        averaged=True,
    ),
    *_load(5, "small", 10, 30, "Publication load is 10 % to 30 % below that of multi-join."),
    Below(
        key="subscriptions-medium",
        figure=6,
        sentence="Subscription load is 4.5 % to 17.4 % below that of the state of the art.",
        said=f"4.5–17.4 % below {_BOTH}",
        setup="medium",
        metric=SUBSCRIPTIONS,
        more=_PAIRWISE,
        low=4.5,
        high=17.4,
    ),
    Below(
        key="pairwise-alike",
        figure=6,
        sentence="Operator placement and multi-join reduce the subscription load more or less alike "
        "(taken here as: within 10 % of each other).",
        said="operator placement and multi-join about the same",
        setup="medium",
        metric=SUBSCRIPTIONS,
        less=PLACEMENT,
        more=JOINS,
        low=-10,
        high=10,
    ),
    Ordered(
        key="centralized-subscriptions",
        figure=6,
        sentence="The centralized approach has by far the lowest subscription load.",
        said="centralized lowest by far",
        setup="medium",
        metric=SUBSCRIPTIONS,
        levels=((*_DISTRIBUTED, EXACT), (CENTRALIZED,)),
    ),
    *_load(7, "medium", 48, 55.9, "Publication load is 48 % to 55.9 % below that of multi-join."),
    Ordered(
        key="centralized-publications",
        figure=7,
        sentence="The centralized approach has the largest publication load.",
        said="centralized highest",
        setup="medium",
        metric=PUBLICATIONS,
        levels=((CENTRALIZED,), (*_DISTRIBUTED, EXACT)),
    ),
    Below(
        key="subscriptions-large-network",
        figure=8,
        sentence="The relative improvements of the subscription load are the same as in the medium set-up "
        "(4.5 % to 17.4 %).",
        said=f"as in Figure 6: 4.5–17.4 % below {_BOTH}",
        setup="large-network",
        metric=SUBSCRIPTIONS,
        more=_PAIRWISE,
        low=4.5,
        high=17.4,
    ),
    *_load(9, "large-network", 56, 62, "Publication load is 56 % to 62 % below that of multi-join."),
    Wider(
        key="fewer-chances-to-cover",
        figure=10,
        sentence="With twice the sources, sets of subscriptions are smaller and set filtering saves less of the "
        "subscription load than in Figure 8.",
        said="saves less than in Figure 8",
        metric=SUBSCRIPTIONS,
        wide="large-network",
        narrow="large-sources",
        more=_PAIRWISE,
    ),
    *_load(11, "large-sources", 54, 68, "Publication load is 54 % to 68 % below that of multi-join."),
    *(order for figure, setup in zip((4, 6, 8, 10), SETUPS, strict=True) for order in _orders(figure, setup)),
    *(
        Wider(
            key=f"wider-in-{wide}",
            figure=figure,
            sentence=f"The publication load falls further below that of multi-join than in the set-up before "
            f"({SETUPS[narrow]}).",
            said=f"a wider margin than in Figure {figure - 2}",
            metric=PUBLICATIONS,
            wide=wide,
            narrow=narrow,
        )
        for figure, narrow, wide in zip((7, 9, 11), tuple(SETUPS)[:-1], tuple(SETUPS)[1:], strict=True)
    ),
    Level(
        key="recall-range",
        figure=12,
        sentence="Recall of filter-split-forward at the user, with probabilistic set filtering, is 93 % to 100 %.",
        said="93–100 %",
        setups=tuple(SETUPS),
        metric="recall",
        series=PROBABILISTIC,
        low=93,
    ),
    Level(
        key="recall-typical",
        figure=12,
        sentence="That recall is generally around 98 %.",
        said="generally around 98 %",
        setups=tuple(SETUPS),
        metric="recall",
        series=PROBABILISTIC,
        low=97.5,
        high=98.5,
        averaged=True,
    ),
)

GOALS: tuple[Claim, ...] = (
    Complete(
        key="exact-complete",
        figure=12,
        sentence="With exact set filtering recall and precision are 100 % in every cell.",
        said="exact: recall and precision 100 % in every cell",
        is_goal=True,
        setups=tuple(SETUPS),
        series=(EXACT,),
    ),
    Complete(
        key="rivals-complete",
        figure=None,
        sentence="The four rivals too deliver exactly what they should in every cell.",
        said="rivals: recall and precision 100 % in every cell",
        is_goal=True,
        setups=tuple(SETUPS),
        series=(CENTRALIZED, *_DISTRIBUTED),
    ),
    *(
        Below(
            key=f"exact-forwards-no-more-{setup}",
            figure=figure,
            sentence="The subscription load with exact set filtering is at most that with probabilistic + 2 %.",
            said="exact at most 2 % above probabilistic",
            is_goal=True,
            setup=setup,
            metric=SUBSCRIPTIONS,
            more=(PROBABILISTIC,),
            low=-2,
        )
        for figure, setup in zip((4, 6, 8, 10), SETUPS, strict=True)
    ),
    *(
        Ordered(
            key=f"least-{setup}",
            figure=figure,
            sentence="The publication load of filter-split-forward is below that of every other distributed strategy "
            "at every count.",
            said="filter-split-forward below all other distributed ones",
            is_goal=True,
            setup=setup,
            metric=PUBLICATIONS,
            levels=(_DISTRIBUTED, (EXACT,)),
        )
        for figure, setup in zip((5, 7, 9, 11), SETUPS, strict=True)
    ),
    *(
        Below(
            key=f"nearly-half-{setup}-{rival.strategy}",
            figure=figure,
            sentence=f"The publication load of filter-split-forward is at least 45 % below that of {rival.name}.",
            said="at least 45 % below multi-join",
            is_goal=True,
            setup=setup,
            metric=PUBLICATIONS,
            more=(rival,),
            low=45,
        )
        for figure, setup in zip((7, 9, 11), tuple(SETUPS)[1:], strict=True)
        for rival in JOINS
    ),
)

CLAIMS: tuple[Claim, ...] = PAPER + GOALS
