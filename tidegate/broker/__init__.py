"""The runner in process: what ``tidegate.pipeline`` does on Spark, in one process and without Java."""
