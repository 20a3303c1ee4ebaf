"""The public keys of an issuer (JWKS, RFC 7517), and whether a signature is by one of them.

Imports PyJWT and cryptography, so ``Issuers`` imports this module only where there are issuers. Which key is asked is
said by the key's type, never by a header of the token alone: an algorithm has one type of key, and none has a secret.
Knows no issuer, no clock and no network.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import orjson
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK
from jwt.algorithms import Algorithm, get_default_algorithms
from jwt.exceptions import PyJWTError

from tidegate.errors import SettingError

__all__ = ["KeySet", "VerifyingKey"]

#: Bytes and keys of a set, and keys that one token is tried with where several have its id.
_LARGEST, _MOST_KEYS, _TRIED = 256 << 10, 128, 2
#: Bits of the modulus of RSA: fewer are broken one day, more take long.
_LEAST_BITS, _MOST_BITS = 2048, 8192
#: For each algorithm, the types of its keys and how PyJWT calls it.
_OF_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_KINDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_OF_RSA, ("RSA",)),
    "ES256": ("P-256",),
    "ES384": ("P-384",),
    "ES512": ("P-521",),
    "EdDSA": ("Ed25519", "Ed448"),
    "Ed25519": ("Ed25519",),
}
_CALLED = {"Ed25519": "EdDSA"}
#: By which algorithm PyJWT is asked to read a key of a type, and the members of its public half.
_READ_AS = {"RSA": "RS256", "P-256": "ES256", "P-384": "ES384", "P-521": "ES512", "Ed25519": "EdDSA", "Ed448": "EdDSA"}
_MEMBERS = {"RSA": ("kty", "n", "e"), "EC": ("kty", "crv", "x", "y"), "OKP": ("kty", "crv", "x")}
_ALGORITHMS: dict[str, Algorithm] = get_default_algorithms()


class VerifyingKey(NamedTuple):
    """A public key: its id, its type, the one algorithm that it is for if it says one, and what knows it again."""

    id: str | None
    kind: str
    algorithm: str | None
    fingerprint: str
    key: Any

    def fits(self, algorithm: str) -> bool:
        """Whether signatures of an algorithm may be by this key."""
        return self.kind in _KINDS.get(algorithm, ()) and self.algorithm in (None, algorithm)

    def has_signed(self, content: bytes, signature: bytes, algorithm: str) -> bool:
        """Whether a signature is by this key."""
        try:
            return bool(_ALGORITHMS[_CALLED.get(algorithm, algorithm)].verify(content, self.key, signature))
        except (PyJWTError, ValueError, TypeError):
            return False


class KeySet:
    """The keys of an issuer at one time."""

    def __init__(self, keys: Iterable[VerifyingKey] = ()) -> None:
        self.keys = tuple(keys)
        self._fingerprints = frozenset(one.fingerprint for one in self.keys)

    def __len__(self) -> int:
        return len(self.keys)

    def __contains__(self, fingerprint: object) -> bool:
        return fingerprint in self._fingerprints

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeySet) and self._names() == other._names()

    def __hash__(self) -> int:
        return hash(self._names())

    def _names(self) -> frozenset[tuple[str | None, str | None, str]]:
        return frozenset((one.id, one.algorithm, one.fingerprint) for one in self.keys)

    def candidates(self, id: str | None, algorithm: str) -> Sequence[VerifyingKey]:
        """The keys that a token of an algorithm may be signed with, a few at most; one without the id of a key if there
        is but one that fits.
        """
        fitting = [one for one in self.keys if one.fits(algorithm)]
        if id is None:
            return fitting if len(fitting) == 1 else []
        return [one for one in fitting if one.id == id][:_TRIED]

    @staticmethod
    def parsed(document: bytes, at: str) -> KeySet:
        """The keys of a document that are for signatures. Those of types that are not known here are left out."""
        expected = "a JSON Web Key Set: an object with a list of keys"
        if len(document) > _LARGEST:
            raise SettingError(f"a JSON Web Key Set of at most {_LARGEST:,} bytes", "a larger one", at)
        try:
            found = orjson.loads(document)
        except orjson.JSONDecodeError:
            raise SettingError(expected, "no JSON", at) from None
        keys = found.get("keys") if isinstance(found, dict) else None
        if not isinstance(keys, list) or len(keys) > _MOST_KEYS:
            raise SettingError(f"{expected}, at most {_MOST_KEYS}", "something else", at)
        read = [key for one in keys if (key := _key(one)) is not None]
        if not read:
            raise SettingError("a key for signatures by RSA, ECDSA or EdDSA", "none", at)
        return KeySet(read)


def _key(given: Any) -> VerifyingKey | None:
    """A key for signatures; None for any other. Only its public members are looked at."""
    if not isinstance(given, dict) or given.get("use", "sig") != "sig" or not _is_for_verifying(given):
        return None
    kty, id, algorithm = given.get("kty"), given.get("kid"), given.get("alg")
    kind = "RSA" if kty == "RSA" else given.get("crv")
    if not isinstance(kty, str) or not isinstance(kind, str) or kty not in _MEMBERS or kind not in _READ_AS:
        return None
    if not isinstance(id, str | None) or not isinstance(algorithm, str | None):
        return None
    public = {name: given.get(name) for name in _MEMBERS[kty]}
    if not all(isinstance(value, str) for value in public.values()):
        return None
    try:
        key = PyJWK.from_dict(public, _READ_AS[kind]).key
    except (PyJWTError, ValueError, TypeError):
        return None
    if isinstance(key, RSAPublicKey) and not _LEAST_BITS <= key.key_size <= _MOST_BITS:
        return None
    fingerprint = hashlib.sha256(orjson.dumps(public, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return VerifyingKey(id, kind, algorithm, fingerprint, key)


def _is_for_verifying(given: dict[str, Any]) -> bool:
    uses = given.get("key_ops")
    return uses is None or (isinstance(uses, list) and "verify" in uses)
