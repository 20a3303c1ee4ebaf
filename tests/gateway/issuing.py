"""An issuer of JWTs for tests: keys of all types, tokens right and wrong, and a file with its public keys."""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from jwt.algorithms import get_default_algorithms

__all__ = ["AUDIENCE", "KINDS", "NAME", "SigningKey", "TestIssuer", "b64", "private_key", "raw", "signed"]

NAME, AUDIENCE = "https://login.example", "tidegate"
#: An algorithm of each type of key.
KINDS = {"RSA": "RS256", "P-256": "ES256", "P-384": "ES384", "P-521": "ES512", "Ed25519": "EdDSA", "Ed448": "EdDSA"}


@cache
def private_key(kind: str, number: int = 0) -> Any:
    """A private key of a type, always the same of a number in one process: keys of RSA take long to be made."""
    made = {
        "RSA": lambda: rsa.generate_private_key(65537, 2048),
        "RSA1024": lambda: rsa.generate_private_key(65537, 1024),
        "P-256": lambda: ec.generate_private_key(ec.SECP256R1()),
        "P-384": lambda: ec.generate_private_key(ec.SECP384R1()),
        "P-521": lambda: ec.generate_private_key(ec.SECP521R1()),
        "Ed25519": ed25519.Ed25519PrivateKey.generate,
        "Ed448": ed448.Ed448PrivateKey.generate,
    }
    return made[kind]()


def b64(data: bytes | str | dict) -> str:
    """Bytes, text or an object as a part of a JWT."""
    if isinstance(data, dict):
        data = json.dumps(data)
    return urlsafe_b64encode(data.encode() if isinstance(data, str) else data).rstrip(b"=").decode()


def raw(header: bytes | str | dict, claims: bytes | str | dict, signature: bytes = b"") -> str:
    """A token of parts as they are given."""
    return f"{b64(header)}.{b64(claims)}.{b64(signature)}"


def signed(header: bytes | str | dict, claims: bytes | str | dict, key: Any, algorithm: str) -> str:
    """A token of parts as they are given, with a signature that is right for them."""
    content = f"{b64(header)}.{b64(claims)}"
    made = get_default_algorithms()[algorithm]
    return f"{content}.{b64(made.sign(content.encode(), key))}"


class SigningKey:
    """A private key with its id and the algorithm that it signs with."""

    def __init__(self, id: str, kind: str = "P-256", algorithm: str | None = None, number: int = 0) -> None:
        self.id, self.kind, self.algorithm = id, kind, algorithm or KINDS[kind]
        self.private = private_key(kind, number)

    def public(self, **more: Any) -> dict[str, Any]:
        """The public half as a JWK."""
        made = get_default_algorithms()["RS256" if self.kind.startswith("RSA") else self.algorithm]
        found = made.to_jwk(self.private.public_key(), as_dict=True)
        return {**found, "kid": self.id, "use": "sig", **more}


class TestIssuer:
    """Signs tokens, and writes its keys to a file. ``clock`` tells seconds since 1970."""

    __test__ = False

    def __init__(self, file: Path, *keys: SigningKey, name: str = NAME, clock=time.time) -> None:
        self.file, self.name, self.clock = file, name, clock
        self.keys = list(keys) or [SigningKey("one")]
        self.publish(self.keys)

    def publish(self, keys: Iterable[SigningKey]) -> None:
        """Have the file name these keys."""
        self.keys = list(keys)
        self.file.write_text(json.dumps({"keys": [one.public() for one in self.keys]}))

    def claims(self, sub: str = "ann", **more: Any) -> dict[str, Any]:
        """The claims of a token that is good; one that is None is left out."""
        moment = self.clock()
        found = {"iss": self.name, "aud": AUDIENCE, "sub": sub, "iat": moment, "exp": moment + 600}
        return {name: value for name, value in {**found, "roles": ["subscriber"], **more}.items() if value is not None}

    def token(self, sub: str = "ann", *, key: SigningKey | None = None, header: dict | None = None, **more) -> str:
        """A signed token."""
        by = key or self.keys[0]
        return jwt.encode(self.claims(sub, **more), by.private, by.algorithm, {"kid": by.id, **(header or {})})

    def section(self, **more: Any) -> str:
        """The section of a TOML file."""
        lines = {"issuer": self.name, "audience": AUDIENCE, "keys": str(self.file), **more}
        return "\n[[issuers]]\n" + "".join(f"{name} = {_toml(value)}\n" for name, value in lines.items())


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {_toml(one)}" for name, one in value.items()) + "}"
    return json.dumps(value)
