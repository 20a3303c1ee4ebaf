"""Dynamic logging level: a client that listens more closely while somebody tries passwords (seed 002, §7.2)."""
