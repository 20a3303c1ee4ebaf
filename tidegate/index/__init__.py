"""The index of filters: it says which filters a batch of publications passes.

``Index`` holds clauses in immutable ``Segment`` tables, which are built aside, swapped in by one assignment and saved
as arrays that can be memory-mapped. The engine, the registry's index layers and the pipeline on Spark match with it.
"""

from tidegate.index.batch import ArrowBatch, Batch, ObjectBatch
from tidegate.index.index import Index, Matches

__all__ = ["ArrowBatch", "Batch", "Index", "Matches", "ObjectBatch"]
