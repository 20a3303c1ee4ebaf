"""JWTs of an issuer: header and claims that its key has signed as they are, or a token whose text was changed after."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from functools import cached_property
from pathlib import Path
from random import Random

import jwt
import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.algorithms import OKPAlgorithm

from tests.fuzz.entry_point import ACCEPTED, Clock, EntryPoint, WrongAnswer
from tests.fuzz.mutations import mutated_bytes, mutated_json
from tidegate.gateway.jwt_claims import issued_token
from tidegate.gateway.jwt_form import Cause, WrongJwt, unverified
from tidegate.gateway.jwt_keys import KeySet
from tidegate.principal_names import is_principal_name
from tidegate.runs.issuer_sections import IssuerSection

_NOW = 1_800_000_000
_SECTION = IssuerSection("https://login.example", ("broker",), roles="realm.roles", sources="sources", read="read")
_HEADER = {"alg": "EdDSA", "kid": "one", "typ": "at+jwt"}
_CLAIMS = {
    "iss": "https://login.example",
    "aud": "broker",
    "sub": "ann",
    "iat": _NOW,
    "nbf": _NOW,
    "exp": _NOW + 600.5,
    "realm": {"roles": ["subscriber", "publisher"]},
    "sources": ["z*"],
    "read": "n > 1",
}
_OTHERS = [None, True, 0, -1, 10**30, 1e300, "", "x", [], {}, ["broker"], "subscriber", _NOW, str(_NOW), "none", "JWT"]


class Jwts(EntryPoint):
    name = "jwts"
    suffix = ".txt"

    @cached_property
    def _key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(bytes(32))

    @cached_property
    def _keys(self) -> KeySet:
        public = OKPAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        return KeySet.parsed(orjson.dumps({"keys": [{**public, "kid": "one"}]}), "here")

    def seeds(self) -> list[bytes]:
        whole = self._written(_HEADER, _CLAIMS)
        return [
            whole,
            self._written({"alg": "EdDSA", "kid": "one"}, {**_CLAIMS, "aud": ["broker", "b"]}),
            self._signed(whole),
        ]

    def _written(self, header: object, claims: object) -> bytes:
        """Header and claims as text, which is signed when it is looked at."""
        return b"\n".join((json.dumps(header).encode(), json.dumps(claims).encode()))

    def _signed(self, written: bytes) -> bytes:
        parts = [urlsafe_b64encode(part).rstrip(b"=") for part in written.split(b"\n", 1)]
        content = b".".join(parts)
        return content + b"." + urlsafe_b64encode(self._key.sign(content)).rstrip(b"=")

    def draw(self, random: Random) -> bytes:
        chance = random.random()
        if chance < 0.05:
            return random.choice(self.seeds())
        if chance < 0.55:
            return self._written(_HEADER, mutated_json(_CLAIMS, random, _OTHERS))
        if chance < 0.7:
            return self._written(mutated_json(_HEADER, random, _OTHERS), _CLAIMS)
        whole = self.seeds()[0]
        return mutated_bytes(whole if chance < 0.85 else self._signed(whole), random, self.seeds())

    def check(self, data: bytes, clock: Clock, scratch: Path) -> str:
        token = data if data.startswith(b"eyJ") else self._signed(data)
        text = token.decode("latin-1")
        try:
            with clock.within(0.05, "reading"):
                found = unverified(text, _SECTION.max_length)
                if found.issuer != _SECTION.issuer:
                    raise WrongJwt(Cause.ISSUER)
                keys = self._keys.candidates(found.key, found.algorithm)
                if not any(one.has_signed(found.signed, found.signature, found.algorithm) for one in keys):
                    raise WrongJwt(Cause.SIGNATURE)
                said = issued_token(found, _SECTION, keys[0].fingerprint, _NOW * 1_000_000)
        except WrongJwt as wrong:
            return wrong.cause
        self._compare(text, said.principal, said.expires)
        return ACCEPTED

    def _compare(self, text: str, principal: str, expires: int) -> None:
        """What is accepted PyJWT accepts, too, and reads the same."""
        wanted = {"verify_exp": False, "verify_iat": False, "verify_nbf": False}
        try:
            claims = jwt.decode(text, self._key.public_key(), ["EdDSA"], options=wanted, audience="broker")
        except jwt.PyJWTError as wrong:
            raise WrongAnswer(f"what PyJWT does not accept: {wrong}") from None
        if claims["sub"] != principal or not is_principal_name(principal):
            raise WrongAnswer("another principal")
        if abs(claims["exp"] + _SECTION.skew - expires / 1e6) > 1e-5 or claims["iss"] != _SECTION.issuer:
            raise WrongAnswer("another time or issuer")
