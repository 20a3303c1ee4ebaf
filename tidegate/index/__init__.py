"""Clauses to tables: built aside, immutable once built, swapped in one step, saved as memory-mappable arrays."""

from tidegate.index.batch import ArrowBatch, Batch, ObjectBatch
from tidegate.index.index import Index, Matches

__all__ = ["ArrowBatch", "Batch", "Index", "Matches", "ObjectBatch"]
