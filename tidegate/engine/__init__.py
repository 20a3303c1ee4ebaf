"""The engine in process: ``Engine``, its shards of patterns, its history of events, explain. Knows nothing of Spark."""

from tidegate.engine.engine import Engine

__all__ = ["Engine"]
