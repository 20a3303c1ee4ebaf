"""Publications as JSON objects: one as an object of the model, many as Arrow tables without an object for each.

Both ways take and refuse the same. What cannot be a publication is an error for one and a fault among many. Knows
neither files nor Spark nor subscriptions, only the names that are wanted.
"""

from tidegate.records.attribute_expansion import expand, expand_attributes
from tidegate.records.record import publication, timestamp
from tidegate.records.tables import table

__all__ = ["expand", "expand_attributes", "publication", "table", "timestamp"]
