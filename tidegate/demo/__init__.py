"""The alpine sensor network of the demo: what it publishes and who subscribes. Knows nothing of how it is shown."""

from tidegate.demo.subscribers import subscriptions
from tidegate.demo.valley import BEGIN, PER_TABLE, STATIONS, Station, tables

__all__ = ["BEGIN", "PER_TABLE", "STATIONS", "Station", "subscriptions", "tables"]
