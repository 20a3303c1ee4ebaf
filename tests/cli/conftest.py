"""Commands that need Spark find this session, and leave it running."""

from __future__ import annotations

from tests.parts.spark import spark

__all__ = ["spark"]
