"""CASEI and ACCENTI: text with its case folded or its accents dropped, one value or a whole Arrow array."""

from __future__ import annotations

import unicodedata
from typing import Any

import pyarrow as pa

from tidegate.language.tree import Attribute, Call

__all__ = ["folded", "folded_array", "folding_of"]

Folding = tuple[str, ...]


def folding_of(operand: Any) -> tuple[str, Folding]:
    """The attribute an operand reads and the foldings applied to it, innermost first."""
    folding: list[str] = []
    while isinstance(operand, Call):
        folding.append(operand.op)
        operand = operand.args[0]
    name = operand.name if isinstance(operand, Attribute) else operand
    return name, tuple(reversed(folding))


def folded(text: str, folding: Folding) -> str:
    """The text after each folding in turn."""
    for how in folding:
        if how == "casei":
            text = text.casefold()
        else:
            decomposed = unicodedata.normalize("NFD", text)
            text = unicodedata.normalize("NFC", "".join(c for c in decomposed if not unicodedata.combining(c)))
    return text


def folded_array(array: pa.Array, folding: Folding) -> pa.Array:
    """``folded`` over an array, once per distinct value."""
    if not folding:
        return array
    distinct = array.dictionary_encode()
    values = pa.array([folded(text, folding) for text in distinct.dictionary.to_pylist()], pa.large_string())
    return values.take(distinct.indices)
