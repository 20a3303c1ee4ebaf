"""The runner on Spark: ``Flow`` behind ``tidegate run``, and ``tg.match``. The only package that imports PySpark."""
