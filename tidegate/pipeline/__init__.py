"""Publications in, notifications out, on Spark. The only package that imports PySpark; all below runs without."""
