"""What somebody sends who wants in with a JWT that no issuer has made for this broker: a table of tokens and causes.

Every line is a token that is nearly right. All are refused as wrong tokens are, and the caller is told no more than one
of five things.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.gateway.issuing import AUDIENCE, KINDS, NAME, SigningKey, b64, raw, signed
from tests.gateway.jwt_world import BEGIN, jwt_world, section
from tidegate.gateway.jwt_keys import VerifyingKey
from tidegate.gateway.problems import RequestError

KEYS = [SigningKey(f"{kind}-key", kind) for kind in KINDS]
RSA, EC, STRANGE = KEYS[0], KEYS[1], SigningKey("RSA-key", "RSA", number=7)
GOOD = {"iss": NAME, "aud": AUDIENCE, "sub": "ann", "iat": BEGIN, "exp": BEGIN + 600, "roles": ["subscriber"]}
HEADER = {"alg": "ES256", "kid": "P-256-key", "typ": "JWT"}
#: What a caller may be told.
TOLD = {
    "another",
    "a JWT whose signature is by no key of the issuer",
    "a JWT of another issuer",
    "a JWT for another audience",
    "a JWT that has expired",
    "a JWT that does not hold yet",
}


def with_secret(secret: bytes, header: dict) -> str:
    """A token with an HMAC by what somebody takes for the secret."""
    content = f"{b64(header)}.{b64(GOOD)}"
    return f"{content}.{b64(hmac.digest(secret, content.encode(), hashlib.sha256))}"


def claims(**changed) -> str:
    """A token with a right signature and other claims; one that is None is left out."""
    said = {name: value for name, value in {**GOOD, **changed}.items() if value is not None}
    return signed(HEADER, said, EC.private, "ES256")


def header(**changed) -> str:
    said = {name: value for name, value in {**HEADER, **changed}.items() if value is not None}
    return signed(said, GOOD, EC.private, "ES256")


def text(claims: str | bytes, head: dict | str = HEADER) -> str:
    """A token whose claims are written by hand."""
    return signed(head, claims, EC.private, "ES256")


def said(name: str, value: str) -> str:
    """The claims as text, one with a value that is written by hand."""
    return json.dumps({**GOOD, name: "…"}).replace(json.dumps("…"), value)


def public(form: PublicFormat, encoding: Encoding) -> bytes:
    return RSA.private.public_key().public_bytes(encoding, form)


SPKI = public(PublicFormat.SubjectPublicKeyInfo, Encoding.PEM)
WHOLE = claims()
PARTS = WHOLE.split(".")
ATTACKS = {
    # no signature, or one that anybody can make
    "alg none": (raw({"alg": "none"}, GOOD), "key"),
    "alg None": (raw({"alg": "None"}, GOOD), "key"),
    "alg none with a kid": (raw({"alg": "none", "kid": "P-256-key"}, GOOD), "key"),
    "no alg": (raw({"kid": "P-256-key"}, GOOD), "form"),
    "alg as a list": (raw({"alg": ["ES256"]}, GOOD), "form"),
    "no signature": (f"{PARTS[0]}.{PARTS[1]}.", "signature"),
    "HMAC by the public key, PEM": (with_secret(SPKI, {"alg": "HS256", "kid": "RSA-key"}), "key"),
    "HMAC by the public key, DER": (
        with_secret(public(PublicFormat.SubjectPublicKeyInfo, Encoding.DER), {"alg": "HS256", "kid": "RSA-key"}),
        "key",
    ),
    "HMAC by the public key, PKCS 1": (
        with_secret(public(PublicFormat.PKCS1, Encoding.PEM), {"alg": "HS256", "kid": "RSA-key"}),
        "key",
    ),
    "HMAC called RS256": (with_secret(SPKI, {"alg": "RS256", "kid": "RSA-key"}), "signature"),
    "HMAC by nothing": (with_secret(b"", {"alg": "HS256"}), "key"),
    "the zero signature of ECDSA": (f"{PARTS[0]}.{PARTS[1]}.{b64(bytes(64))}", "signature"),
    "a DER signature of ECDSA": (f"{PARTS[0]}.{PARTS[1]}.{b64(bytes.fromhex('3006020101020101'))}", "signature"),
    "the signature of other claims": (f"{PARTS[0]}.{claims(sub='bob').split('.')[1]}.{PARTS[2]}", "signature"),
    "the header of another": (f"{header(typ='at+jwt').split('.')[0]}.{PARTS[1]}.{PARTS[2]}", "signature"),
    # keys
    "another key of that id": (jwt.encode(GOOD, STRANGE.private, "RS256", {"kid": "RSA-key"}), "signature"),
    "an id that there is not": (header(kid="another"), "key"),
    "an id that is a path": (header(kid="../../../../dev/null"), "key"),
    "an id that is a query": (header(kid="x' UNION SELECT 'secret"), "key"),
    "an id that is an address": (header(kid="https://evil.example/jwks"), "key"),
    "an id that is a number": (header(kid=5), "form"),
    "an id that is null": (text(json.dumps(GOOD), '{"alg":"ES256","kid":null}'), "form"),
    "an id of a thousand characters": (header(kid="x" * 1000), "form"),
    "an id of NUL": (header(kid="\0"), "key"),
    "no id where there are several that fit": (signed({"alg": "EdDSA"}, GOOD, KEYS[4].private, "EdDSA"), "key"),
    "the key of another type": (header(kid="RSA-key"), "key"),
    "an algorithm for another key": (signed({"alg": "ES384", "kid": "P-256-key"}, GOOD, EC.private, "ES384"), "key"),
    "a key of its own, jwk": (
        jwt.encode(GOOD, STRANGE.private, "RS256", {"kid": "RSA-key", "jwk": STRANGE.public()}),
        "signature",
    ),
    "a key of its own, jwk without an id": (
        signed({"alg": "RS256", "jwk": STRANGE.public()}, GOOD, STRANGE.private, "RS256"),
        "signature",
    ),
    "keys of its own, jku": (
        jwt.encode(GOOD, STRANGE.private, "RS256", {"kid": "RSA-key", "jku": "http://127.0.0.1:1/jwks"}),
        "signature",
    ),
    "a certificate of its own, x5u and x5c": (
        jwt.encode(GOOD, STRANGE.private, "RS256", {"kid": "RSA-key", "x5u": "http://127.0.0.1:1/", "x5c": ["MII"]}),
        "signature",
    ),
    # headers
    "crit": (header(crit=["exp"], exp=1), "type"),
    "an empty crit": (header(crit=[]), "type"),
    "b64": (header(b64=False), "type"),
    "another type": (header(typ="logout+jwt"), "type"),
    "a type that is a number": (header(typ=1), "form"),
    "nested": (header(cty="JWT"), "type"),
    "nested, in small letters": (header(cty="jwt"), "type"),
    "encrypted": (".".join([b64({"alg": "RSA-OAEP", "enc": "A256GCM"}), "a", "b", "c", "d"]), "form"),
    "enc": (header(enc="A256GCM"), "type"),
    # form
    "nothing behind the header": (f"{PARTS[0]}.", "form"),
    "two parts": (f"{PARTS[0]}.{PARTS[1]}", "form"),
    "four parts": (f"{WHOLE}.{PARTS[2]}", "form"),
    "very many dots": (f"{PARTS[0]}{'.' * 8000}", "form"),
    "too many characters": (claims(more="x" * 9000), "form"),
    "a million characters": (f"{PARTS[0]}.{'A' * 1_000_000}.{PARTS[2]}", "form"),
    "padding": (f"{PARTS[0]}=.{PARTS[1]}.{PARTS[2]}", "form"),
    "white space": (f"{PARTS[0]}.{PARTS[1]}\n.{PARTS[2]}", "form"),
    "base64 in place of base64url": (f"{PARTS[0]}.{PARTS[1]}.{'+/' * 43}", "form"),
    "bits that belong to nothing": (f"{PARTS[0]}.{PARTS[1]}.{PARTS[2][:-1]}{chr(ord(PARTS[2][-1]) + 1)}", "form"),
    "a part of one character": (f"{PARTS[0]}.A.{PARTS[2]}", "form"),
    "characters that are not ASCII": (f"{PARTS[0]}.é.{PARTS[2]}", "form"),
    "claims that are a list": (text("[]"), "form"),
    "claims that are no UTF-8": (text(b'{"iss":"\xff"}'), "form"),
    "claims that are no JSON": (text("{'iss': 1}"), "form"),
    "claims that stand twice": (text(json.dumps(GOOD)[:-1] + ', "sub": "root"}'), "form"),
    "headers that stand twice": (text(json.dumps(GOOD), '{"alg":"none","alg":"ES256","kid":"P-256-key"}'), "form"),
    "claims in each other, a hundred": (text(said("deep", "[" * 100 + "]" * 100)), "form"),
    "claims in each other, two thousand": (text(said("deep", '{"a":' * 999 + "1" + "}" * 999)), "form"),
    "NaN": (text(said("exp", "NaN")), "form"),
    "Infinity": (text(said("exp", "Infinity")), "form"),
    # claims
    "no issuer": (claims(iss=None), "form"),
    "another issuer": (claims(iss="https://evil.example"), "issuer"),
    "an issuer with a slash more": (claims(iss=NAME + "/"), "issuer"),
    "an issuer in capitals": (claims(iss=NAME.upper()), "issuer"),
    "issuers": (claims(iss=[NAME]), "form"),
    "no audience": (claims(aud=None), "audience"),
    "another audience": (claims(aud="another"), "audience"),
    "an audience that begins so": (claims(aud=AUDIENCE + "2"), "audience"),
    "audiences that are none of ours": (claims(aud=["a", "b"]), "audience"),
    "audiences with a number": (claims(aud=[AUDIENCE, 5]), "audience"),
    "an audience as an object": (claims(aud={AUDIENCE: True}), "audience"),
    "very many audiences": (claims(aud=[AUDIENCE, *map(str, range(100))]), "audience"),
    "expired": (claims(iat=BEGIN - 700, exp=BEGIN - 31), "expired"),
    "expired at this moment": (claims(iat=BEGIN - 700, exp=BEGIN - 30), "expired"),
    "not before": (claims(nbf=BEGIN + 31), "not_yet"),
    "issued later": (claims(iat=BEGIN + 31), "not_yet"),
    "for longer than a day": (claims(exp=BEGIN + 86_401), "lifetime"),
    "for ever": (claims(exp=None), "claims"),
    "issued never": (claims(iat=None), "claims"),
    "a time as text": (claims(exp=str(BEGIN + 600)), "claims"),
    "a time that is true": (claims(exp=True), "claims"),
    "a time that is null": (text(said("nbf", "null")), "claims"),
    "a time beyond all": (text(said("exp", "1e400")), "claims"),
    "a time of very many digits": (text(said("exp", "9" * 400)), "claims"),
    "a time before 1970": (text(said("iat", "-1")), "claims"),
    "a time in milliseconds": (claims(exp=(BEGIN + 600) * 1000), "claims"),
    "no principal": (claims(sub=None), "principal"),
    "an empty principal": (claims(sub=""), "principal"),
    "a principal that is a number": (claims(sub=5), "principal"),
    "a principal with a slash": (claims(sub="ann/bob"), "principal"),
    "a principal with a line more": (claims(sub="ann\n"), "principal"),
    "a principal of other letters": (claims(sub="аnn"), "principal"),
    "roles that are a number": (claims(roles=5), "claims"),
    "roles that are numbers": (claims(roles=[5]), "claims"),
    "roles that are an object": (claims(roles={"administrator": True}), "claims"),
}
GOOD_ONES = {
    "as it should be": claims(),
    "of audiences": claims(aud=["another", AUDIENCE]),
    "of the type of access tokens": header(typ="at+jwt"),
    "of that type as a media type": header(typ="application/AT+JWT"),
    "of no type": header(typ=None),
    "just expired": claims(iat=BEGIN - 700, exp=BEGIN - 29),
    "of a clock that is ahead": claims(iat=BEGIN + 30, nbf=BEGIN + 30),
    "of fractions of seconds": claims(iat=BEGIN - 0.5, exp=BEGIN + 0.25),
    "of a day": claims(exp=BEGIN + 86_400),
    "of roles that are of no concern": claims(roles=["a", "subscriber"]),
    "of scopes": claims(roles="a subscriber"),
    "of no roles": claims(roles=None),
    "with headers that nobody asks": header(x5t="x", jku="https://evil.example", x5c=["MII"]),
    "of the only key of its type without an id": signed({"alg": "ES384"}, GOOD, KEYS[2].private, "ES384"),
}


async def judged(directory, token):
    with jwt_world(directory) as world:
        world.issuer.publish(KEYS)
        await world.fetch()
        return await world.judged(token)


@pytest.mark.parametrize(("token", "cause"), ATTACKS.values(), ids=ATTACKS)
def test_a_jwt_that_is_nearly_right_is_refused(tmp_path, token, cause, caplog, monkeypatch):
    asked = []
    has_signed = VerifyingKey.has_signed
    monkeypatch.setattr(VerifyingKey, "has_signed", lambda self, *more: asked.append(1) or has_signed(self, *more))

    async def run():
        with jwt_world(tmp_path) as world:
            world.issuer.publish(KEYS)
            await world.fetch()
            assert await world.judged(token) == cause
            with pytest.raises(RequestError) as refused:
                await world.access.caller(token, "192.0.2.2")
            assert (refused.value.status, refused.value.code) == (401, "unauthorized")
            assert refused.value.got in TOLD
            assert len(world.access._known) == 0
            assert world.principals.all() == []

    asyncio.run(run())
    assert len(asked) <= (0 if cause in ("form", "issuer", "key") else 2)  # one for each time
    lines = [json.loads(record.message) for record in caplog.records if record.name == "tidegate.audit"]
    assert [line["address"] for line in lines] == ["192.0.2.1", "192.0.2.2"]
    assert not any(len(part) > 16 and part in caplog.text for part in token.split("."))


@pytest.mark.parametrize("token", GOOD_ONES.values(), ids=GOOD_ONES)
def test_a_jwt_that_is_right_is_accepted(tmp_path, token):
    assert asyncio.run(judged(tmp_path, token)) == "accepted"


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.kind)
def test_each_type_of_key_signs(tmp_path, key):
    assert asyncio.run(judged(tmp_path, jwt.encode(GOOD, key.private, key.algorithm, {"kid": key.id}))) == "accepted"


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
def test_a_key_of_rsa_signs_by_all_its_algorithms(tmp_path, algorithm):
    token = jwt.encode(GOOD, RSA.private, algorithm, {"kid": "RSA-key"})
    assert asyncio.run(judged(tmp_path, token)) == "accepted"


def test_the_name_of_ed25519_alone_is_an_algorithm_too(tmp_path):
    key = KEYS[4]
    assert key.kind == "Ed25519"
    assert asyncio.run(judged(tmp_path, signed({"alg": "Ed25519", "kid": key.id}, GOOD, key.private, "EdDSA"))) == (
        "accepted"
    )
    key = KEYS[5]
    token = signed({"alg": "Ed25519", "kid": key.id}, GOOD, key.private, "EdDSA")
    assert asyncio.run(judged(tmp_path, token)) == "key"


def test_only_algorithms_of_the_section_are_taken(tmp_path):
    async def run():
        with jwt_world(tmp_path, section(algorithms=("RS256",))) as world:
            world.issuer.publish(KEYS)
            await world.fetch()
            found = [
                await world.judged(jwt.encode(GOOD, key.private, algorithm, {"kid": key.id}))
                for key, algorithm in ((RSA, "RS256"), (RSA, "PS256"), (EC, "ES256"))
            ]
            assert found == ["accepted", "key", "key"]

    asyncio.run(run())


@pytest.mark.parametrize(
    "changed",
    [
        {"use": "enc"},
        {"key_ops": ["encrypt"]},
        {"alg": "RS512"},
        {"alg": "HS256"},
        {"kty": "oct", "k": "c2VjcmV0"},
        {"n": "AQAB"},
        {"e": None},
        {"kid": 5},
    ],
    ids=str,
)
def test_a_key_for_something_else_is_none(tmp_path, changed):
    async def run():
        with jwt_world(tmp_path) as world:
            world.documents(RSA.public(**changed), EC.public())
            await world.fetch()
            return await world.judged(jwt.encode(GOOD, RSA.private, "RS256", {"kid": "RSA-key"}))

    assert asyncio.run(run()) == "key"


def test_a_key_of_rsa_that_is_too_small_is_none(tmp_path):
    small = SigningKey("small", "RSA1024", "RS256")

    async def run():
        with jwt_world(tmp_path) as world:
            world.documents(small.public(), EC.public())
            await world.fetch()
            return await world.judged(signed({"alg": "RS256", "kid": "small"}, GOOD, small.private, "RS256"))

    assert asyncio.run(run()) == "key"


def test_a_private_key_among_public_ones_is_used_as_a_public_one(tmp_path):
    from jwt.algorithms import ECAlgorithm

    async def run():
        with jwt_world(tmp_path) as world:
            world.documents({**ECAlgorithm.to_jwk(EC.private, as_dict=True), "kid": EC.id})
            await world.fetch()
            assert not hasattr(world.issuers._by_name[NAME].keys.keys.keys[0].key, "sign")
            return await world.judged(claims())

    assert asyncio.run(run()) == "accepted"


def test_a_flood_of_wrong_jwts_has_to_wait_and_others_have_not(tmp_path):
    async def run():
        with jwt_world(tmp_path) as world:
            world.issuer.publish(KEYS)
            await world.fetch()
            token = ATTACKS["the signature of other claims"][0]
            found = [await world.judged(token) for _ in range(60)]
            assert found.count("429 rate") == 60 - found.count("signature") > 0
            assert await world.judged(WHOLE) == "429 rate"
            assert await world.judged(WHOLE, "198.51.100.1") == "accepted"
            assert await world.judged(WHOLE) == "accepted"  # who is known already does not notice

    asyncio.run(run())
