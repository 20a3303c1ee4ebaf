"""How much one batch of a run takes at most. The small processes that Spark starts for sources import this module, so
it imports nothing.
"""

__all__ = ["BATCH_ROWS"]

#: Publications of one batch at most, so that a run that catches up still has batches of seconds.
BATCH_ROWS = 1_000_000
