"""How much one batch of a run takes at most. Spark's small source processes read it, so nothing is imported here."""

__all__ = ["BATCH_ROWS"]

#: Publications of one batch at most, so that a run that catches up still has batches of seconds.
BATCH_ROWS = 1_000_000
