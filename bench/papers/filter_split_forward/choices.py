"""What the paper does not say and what was chosen instead, for the page. Words only; change them with the choice."""

from __future__ import annotations

from bench.papers.markdown import bullets

__all__ = ["left_open"]


def left_open() -> list[str]:
    """What the paper does not say, and what was chosen here."""
    return [
        "## What the paper leaves open, and what was chosen",
        bullets(
            (
                "**Width of ranges.** Offsets are Pareto with skew 1, but of what unit? Here the median absolute "
                "deviation of the sensor's own stream, and at least one of it: every range holds at least half of the "
                "sensor's readings, which is how we read “medium selective”.",
                "**Offsets below and above the median** are drawn apart. Of ranges that are symmetric about one median "
                "a set never covers what no single one does (a corner of the covered box would be in one of them, and "
                "with it the whole box), and the paper sees that sets do.",
                "**Matching events.** The paper makes sure that each subscription has some. Here ranges are drawn "
                "again until at least one match exists.",
                "**δt** is not given. Here 5 minutes, for all; stations report every 2 minutes.",
                "**Users** sit at nodes drawn uniformly from all nodes, those with sensors included.",
                "**Groups.** The five nodes of a station are a random tree among themselves, and the first hangs on a "
                "random relay; relays are a random recursive tree. The paper says that they are neighbours.",
                "**Full result sets** (centralized, naive) and **per subscription** (operator placement): every "
                "operator sends its own copy, so a reading is one event of load for each operator and link.",
                "**Binary joins.** The paper does not say into which pairs a multi-join is split. Here it is measured "
                "twice: with a ring, in which each attribute is once the main one and once the filter of its "
                "neighbour, and with all pairs. A reading passes if *one* of its joins holds, so with more pairs there "
                "are more false positives.",
                "**Where joins are decided.** Where the streams of the two sensors meet; from there on the readings "
                "of the result set are only routed, tagged with the operators in whose result sets they are. A join "
                "that another one covers is decided where it was found to be covered, from what arrives there.",
                "**Order of arrival.** In the paper nodes are faster or slower by chance; here a subscription has "
                "arrived everywhere before the next one comes, and so has a reading.",
                "**Data.** Which stations and which days were replayed is not said. Here, for each seed, random "
                "stations and bursts of ten minutes from all over the six weeks in which all of them report: an "
                "unbroken stretch of the same length would be one afternoon. Anemometers are silent in calm air; what "
                "is missing is absent. Bursts are drawn again until every station has a moment that one range in ten "
                "would match, since the paper's subscriptions all have matching events. An ambient temperature of "
                "exactly −1, which looks like the mark of a failed sensor, is left in like all spikes.",
                "**Rivals** run on the same node, with the same stores, the same check of covering pairs and the same "
                "rule that a reading crosses a link once per neighbour where Table II says so: of multi-join, a "
                "message that only names a further operator for a reading that has crossed is no event of load. "
                "Operators are compared before they are sent, not where they arrive, for all alike. A binary join both "
                "of whose sensors are asked for anyway is not sent, which spares multi-join a few operators.",
            )
        ),
    ]
