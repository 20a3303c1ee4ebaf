"""The section ``[serve]`` of a TOML file: where a broker listens, and the limits of what comes in."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.runs.toml_sections import count, key, location, networks, number, port, size, texts, truth

__all__ = ["ServeSection"]

_KIB, _MIB = 1 << 10, 1 << 20


@dataclass(frozen=True)
class ServeSection:
    """How a gateway listens, and what it takes from whom. Sizes are in bytes, times in seconds."""

    listen: tuple[str, int] = key(port, ("127.0.0.1", 8400))
    workers: int = key(count, 1)
    certificate: str | None = key(location, None)
    private_key: str | None = key(location, None)
    plain: bool = key(truth, False)
    proxies: tuple[str, ...] = key(networks, ())
    origins: tuple[str, ...] = key(texts, ())
    compress_from: int = key(size, 1400)
    max_connections: int = key(count, 10_000)
    max_header: int = key(count, 64 * _KIB)
    max_body: int = key(count, 16 * _MIB)
    max_bodies: int = key(count, 256 * _MIB)
    max_publication: int = key(count, _MIB)
    max_publications: int = key(count, 100_000)
    header_seconds: float = key(number, 10.0)
    body_seconds: float = key(number, 20.0)
    idle_seconds: float = key(number, 75.0)
    request_seconds: float = key(number, 30.0)
    requests_per_second: float = key(number, 20_000.0)
    rehearsals: int = key(count, 2)
    rehearsal_seconds: float = key(number, 20.0)
    rehearsal_rows: int = key(count, 20_000_000)
    heartbeat: float = key(number, 15.0)
    room: int = key(count, _MIB)
    max_waiting: int = key(count, 256 * _MIB)
    request_log: bool = key(truth, False)
    open_metrics: bool = key(truth, False)
