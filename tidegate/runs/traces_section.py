"""The section ``[traces]`` of a TOML file: where spans of publications go, and of how many that bring no trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tidegate.runs.toml_sections import KeyPosition, key, number, text

__all__ = ["TracesSection"]


def _endpoint(value: Any, at: KeyPosition) -> str:
    """An address of HTTP."""
    address = text(value, at)
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise at.wrong("an address that begins with http:// or https://", value)
    return address


def _share(value: Any, at: KeyPosition) -> float:
    """A number from 0 to 1."""
    found = number(value, at)
    if not 0 <= found <= 1:
        raise at.wrong("a number from 0 to 1", value)
    return float(found)


@dataclass(frozen=True)
class TracesSection:
    """Where OTLP over HTTP is taken; without an address nothing is traced."""

    endpoint: str | None = key(_endpoint, None)
    service: str = key(text, "tidegate")
    share: float = key(_share, 0.0)
