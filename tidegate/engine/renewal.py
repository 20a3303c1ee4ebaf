"""Subscriptions compiled anew because another ontology gives them another meaning: ``compiled_anew``.

``Engine`` calls it when it notices another ontology, and puts what comes of it into its index and its patterns. Knows
nothing of either.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tidegate.errors import TypeMismatch, shown
from tidegate.index.catalogue import Catalogue
from tidegate.index.ontology_answers import OntologyAnswers
from tidegate.language import Limits, to_json
from tidegate.language.limits import NO_LIMITS
from tidegate.patterns import Pattern
from tidegate.predicates import Filter
from tidegate.predicates.ontology import asking, expanded
from tidegate.subscriptions import compile_subscription, expression_of

__all__ = ["Renewal", "compiled_anew"]

_log = logging.getLogger("tidegate")


@dataclass(frozen=True, slots=True)
class Renewal:
    """The new numbers of subscriptions with what they mean now, and the numbers that they had before."""

    filters_before: list[int] = field(default_factory=list)
    filters: list[tuple[int, Filter]] = field(default_factory=list)
    patterns_before: list[int] = field(default_factory=list)
    patterns: list[tuple[int, Pattern]] = field(default_factory=list)
    unknown: list[tuple[str, TypeMismatch]] = field(default_factory=list)
    """The ids of those that ask for what the ontology does not know any more; they keep their meaning."""

    def warn_of_unknown(self) -> None:
        """Log how many ask for what is unknown, and what the first of them asks for."""
        if self.unknown:
            id, wrong = self.unknown[0]
            told = "%d subscriptions ask for what the ontology does not know any more; %s: expected %s; got %s"
            _log.warning(told, len(self.unknown), shown(id), wrong.expected, wrong.got)


def compiled_anew(changed: Sequence[int], catalogue: Catalogue, asked: OntologyAnswers, limits: Limits) -> Renewal:
    """Compile the subscriptions with these numbers, and give them new ones in catalogue and answers."""
    found = Renewal()
    for before in changed:
        subscription = catalogue.subscription(before)
        with asking() as asks:
            try:
                meaning = compile_subscription(subscription, limits)
            except TypeMismatch as error:  # the new ontology does not know what the one before did
                found.unknown.append((subscription.id, error))
                meant = to_json(expanded(expression_of(subscription, limits)))
                meaning = compile_subscription(replace(subscription, where=meant), NO_LIMITS)
        asked.forget(before)
        number = catalogue.renumber(subscription.id)
        asked.note(number, asks)
        if isinstance(meaning, Pattern):
            found.patterns_before.append(before)
            found.patterns.append((number, meaning))
        else:
            found.filters_before.append(before)
            found.filters.append((number, meaning))
    return found
