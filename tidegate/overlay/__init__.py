"""A network of brokers: what to forward where, so that little travels and nothing is lost."""
