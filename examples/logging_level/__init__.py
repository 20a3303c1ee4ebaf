"""Dynamic logging level: a client that listens more closely while somebody tries passwords (Stevens 2009, §7.2)."""
