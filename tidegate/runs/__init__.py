"""What every runner shares and no Spark is in: the TOML file, sources, sinks, quarantine, status and metrics."""
