"""The engine in process: publish, patterns by shard, the history of events, explain. Knows nothing of Spark."""

from tidegate.engine.engine import Engine

__all__ = ["Engine"]
