"""The log of a broker: lines of all its processes on the standard error, each with time, process and level."""

from __future__ import annotations

import logging
import sys

__all__ = ["log_to_standard_error"]


def log_to_standard_error(name: str) -> None:
    """Write what Tidegate logs in this process, which is called ``name``, to the standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(f"%(asctime)s {name} %(levelname)s %(message)s"))
    logger = logging.getLogger("tidegate")
    logger.handlers[:] = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logging.getLogger("opentelemetry.trace").setLevel(logging.ERROR)  # it warns of contexts, with what is in them
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # it warns of every request that is none
