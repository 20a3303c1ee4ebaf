"""A log of the same form, for where the real one is absent: quiet traffic, and now and then somebody who tries."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import numpy as np

__all__ = ["log"]


def log(rng: np.random.Generator, count: int = 2000) -> Iterator[str]:
    """So many lines, in order of time."""
    now, made, pid = datetime(2026, 12, 10, 6, 55, 46), 0, 24200
    while made < count:
        burst = rng.random() < 0.15
        host = f"10.0.{rng.integers(256)}.{rng.integers(256)}"
        for _ in range(int(rng.integers(3, 30)) if burst else 1):
            pid += 1
            for text in _attempt(rng, host):
                yield f"{now:%b %d %H:%M:%S} LabSZ sshd[{pid}]: {text}"
                made += 1
                if made == count:
                    return
                now += timedelta(seconds=int(rng.random() < (0.3 if burst else 0.5)))
            now += timedelta(seconds=int(rng.integers(0, 3) if burst else rng.integers(1, 8)))
        now += timedelta(seconds=int(rng.integers(5, 240)))


def _attempt(rng: np.random.Generator, host: str) -> list[str]:
    port = rng.integers(1024, 65536)
    if rng.random() < 0.02:
        return [f"error: Received disconnect from {host}: 3: com.jcraft.jsch.JSchException: Auth fail [preauth]"]
    if rng.random() < 0.05:
        return [f"Accepted password for fztu from {host} port {port} ssh2"]
    lines = [f"pam_unix(sshd:auth): authentication failure; logname= uid=0 euid=0 tty=ssh ruser= rhost={host}"]
    lines += [f"Failed password for root from {host} port {port} ssh2"]
    return [*lines, f"Received disconnect from {host}: 11: Bye Bye [preauth]"]
