"""Which token is accepted at which time with which keys: ``Access`` against a model in obvious steps.

Tokens, keys and times are drawn, so that about half of the tokens are good. The model looks at how a token was made;
what the bytes of a token say is also asked of PyJWT's own ``decode``, which shares no step with ours but the signature.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import jwt
from hypothesis import given
from hypothesis import strategies as st

from tests.gateway.issuing import AUDIENCE, KINDS, NAME, SigningKey
from tests.gateway.jwt_world import BEGIN, jwt_world, section
from tests.parts.profiles import examples

KEYS = [
    SigningKey(f"k{number % 3}", kind, number=number) for number, kind in enumerate(["P-256", "RSA", "Ed25519"] * 2)
]
SKEW, LIFETIME = 30, 3600
OLD = "https://before.example"


class Drawn(NamedTuple):
    """How a token is made: the key that signs, whether its id is that of the next, and times in seconds from BEGIN."""

    signer: int
    is_misnamed: bool
    issuer: str
    audience: object
    issued: int
    begins: int | None
    expires: int
    is_torn: bool


rarely = st.sampled_from([False] * 9 + [True])
near = st.one_of(st.just(0), st.integers(-100, 100), st.sampled_from([-31, -30, -29, 29, 30, 31]))
tokens = st.builds(
    Drawn,
    signer=st.integers(0, len(KEYS) - 1),
    is_misnamed=rarely,
    issuer=st.sampled_from([NAME] * 9 + [OLD, NAME + "/"]),
    audience=st.sampled_from([*[AUDIENCE, [AUDIENCE, "b"]] * 4, ["a", "b"], "", []]),
    issued=near,
    begins=st.one_of(st.none(), near),
    expires=st.one_of(st.integers(0, 400), st.sampled_from([LIFETIME, LIFETIME + 1, -40, -30, -29])),
    is_torn=rarely,
)
moments = st.lists(
    st.tuples(st.integers(0, 300), st.sets(st.integers(0, len(KEYS) - 1), min_size=3)), min_size=1, max_size=4
)


def made(drawn: Drawn) -> str:
    claims = {
        "iss": drawn.issuer,
        "aud": drawn.audience,
        "sub": "ann",
        "iat": BEGIN + drawn.issued,
        "exp": BEGIN + drawn.issued + drawn.expires,
    }
    if drawn.begins is not None:
        claims["nbf"] = BEGIN + drawn.begins
    key = KEYS[drawn.signer]
    token = jwt.encode(claims, key.private, key.algorithm, {"kid": f"k{(drawn.signer + drawn.is_misnamed) % 3}"})
    return token[:-8] + ("AAAAAAAA" if token[-8:] != "AAAAAAAA" else "BBBBBBBB") if drawn.is_torn else token


def accepts(drawn: Drawn, now: float, published: set[int]) -> bool:
    """Whether a token is to be accepted at a time, by how it was made."""
    if drawn.signer not in published or drawn.is_misnamed:
        return False
    if drawn.issuer != NAME or drawn.is_torn:
        return False
    if drawn.audience not in (AUDIENCE, [AUDIENCE, "b"]):
        return False
    if drawn.expires > LIFETIME:
        return False
    begins = max(drawn.issued, drawn.issued if drawn.begins is None else drawn.begins)
    return begins - SKEW <= now - BEGIN < drawn.issued + drawn.expires + SKEW


def decodes(token: str, published: set[int]) -> bool:
    """Whether PyJWT takes the bytes of a token, times aside, with any key that is published."""
    wanted = {"verify_exp": False, "verify_iat": False, "verify_nbf": False, "require": ["exp", "iat", "iss", "aud"]}
    for number in published:
        key = KEYS[number]
        if jwt.get_unverified_header(token)["kid"] != key.id:
            continue
        try:
            public = key.private.public_key()
            jwt.decode(token, public, [KINDS[key.kind]], options=wanted, audience=AUDIENCE, issuer=NAME)
        except jwt.PyJWTError:
            continue
        return True
    return False


@examples(60)
@given(drawn=st.lists(tokens, min_size=1, max_size=6), history=moments)
def test_what_is_accepted_is_what_the_model_accepts(tmp_path_factory, drawn, history):
    """Each token is asked for at each moment, so most are known from before when their keys or times have gone."""

    async def run():
        wanted = section(skew=float(SKEW), max_lifetime=float(LIFETIME))
        with jwt_world(tmp_path_factory.mktemp("model"), wanted) as world:
            tokens = [made(one) for one in drawn]
            for later, published in history:
                world.now += later
                world.issuer.publish([KEYS[number] for number in sorted(published)])
                await world.fetch()
                await world.access.refresh()
                for one, token in zip(drawn, tokens, strict=True):
                    accepted = accepts(one, world.now, published)
                    found = await world.judged(token)
                    assert (found == "accepted") is accepted, (one, world.now - BEGIN, found)
                    if accepted:
                        assert decodes(token, published)
                    elif found in ("key", "signature", "audience", "issuer"):
                        assert not decodes(token, published)

    asyncio.run(run())
