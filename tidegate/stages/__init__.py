"""The two stages of a run, select and combine, as plain functions of their input.

Spark calls them in its tasks (``tidegate.pipeline``), the runner in process calls them itself (``tidegate.broker``).
Nothing here knows who calls.
"""
