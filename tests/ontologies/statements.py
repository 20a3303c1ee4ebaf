"""Statements of small ontologies, and engines that ask about their terms."""

from __future__ import annotations

from datetime import UTC, datetime

import tidegate as tg
from tidegate.ontologies.words import VOCABULARY

E = "http://e/"
HEAD = f"""
@prefix : <{E}> .
@prefix owl: <{VOCABULARY["owl"]}> .
@prefix rdf: <{VOCABULARY["rdf"]}> .
@prefix rdfs: <{VOCABULARY["rdfs"]}> .
@prefix xsd: <{VOCABULARY["xsd"]}> .
"""


def publication(id="p", **attributes):
    return tg.Publication(id=id, source="z7", time=datetime(2026, 11, 15, 8, tzinfo=UTC), attributes=attributes)


def engine(*wheres):
    return tg.Engine([tg.Subscription(where, "ann", where) for where in wheres])


def told(found, **attributes):
    return {n.subscription for n in found.publish([publication(**attributes)])}


def names(ontology, relation, *about):
    return {t.removeprefix(E) for t in ontology.terms(relation, *(E + name for name in about))}
