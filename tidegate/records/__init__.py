"""From JSON objects to publications: one to a ``Publication``, many to Arrow tables without an object for each.

Both ways take and refuse the same. A JSON object that cannot be a publication raises an error if it is alone, and is
reported as a ``RejectedRow`` among many. Knows neither files nor Spark nor subscriptions, only the names that are
wanted.
"""

from tidegate.records.attribute_expansion import expand, expand_attributes
from tidegate.records.record import publication, timestamp
from tidegate.records.tables import table

__all__ = ["expand", "expand_attributes", "publication", "table", "timestamp"]
