"""What every runner shares, without Spark: the TOML file, sources, sinks, quarantine, status and metrics."""
