"""Signatures are those of Standard Webhooks: by the vector of the specification, and by another implementation."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from tests.parts.profiles import examples
from tidegate.errors import SettingError
from tidegate.store.webhook_secrets import key_of, made
from tidegate.webhooks.signatures import signature, signature_headers

#: The example that implementations of the specification share.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID, TIMESTAMP, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_vector_of_the_specification():
    assert signature(SECRET, ID, TIMESTAMP, BODY) == SIGNATURE
    assert signature_headers([SECRET], ID, TIMESTAMP, BODY) == [
        ("webhook-id", ID),
        ("webhook-timestamp", "1614265330"),
        ("webhook-signature", SIGNATURE),
    ]


@examples(50)
@given(st.binary(min_size=24, max_size=64), st.binary(min_size=24, max_size=64), st.text(), st.uuids())
def test_another_implementation_verifies_with_either_secret_while_one_is_rotated(new, old, text, id):
    secrets = [f"whsec_{b64encode(key).decode()}" for key in (new, old)]
    body, now = text.encode("utf-8", "replace"), int(datetime.now(UTC).timestamp())
    headers = dict(signature_headers(secrets, str(id), now, body))
    for secret in secrets:
        Webhook(secret).verify(body, headers, json_parse=False)
        for changed in ({"webhook-id": "other"}, {"webhook-timestamp": str(now - 1)}):
            with pytest.raises(WebhookVerificationError):
                Webhook(secret).verify(body, headers | changed, json_parse=False)
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(body + b" ", headers, json_parse=False)
    with pytest.raises(WebhookVerificationError):
        Webhook(made()).verify(body, headers, json_parse=False)


def test_secrets_that_are_made_are_good_and_differ():
    found = {made() for _ in range(100)}
    assert len(found) == 100
    assert {len(key_of(secret)) for secret in found} == {32}


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "whsec_",
        "whsec_####",
        f"whsec_{b64encode(23 * b'a').decode()}",
        f"whsec_{b64encode(65 * b'a').decode()}",
        b64encode(32 * b"a").decode(),
        f"WHSEC_{b64encode(32 * b'a').decode()}",
        f"whsec_{b64encode(32 * b'a').decode()} ",
        f"whsec_{b64encode(32 * b'a').decode()}\n",
        7,
        None,
        f"whsec_{b64encode(32 * bytes([251])).decode().replace('+', '-').replace('/', '_')}",
    ],
)
def test_what_is_no_secret_is_refused_and_not_shown(secret):
    with pytest.raises(SettingError, match=r"got something else; at secret$") as caught:
        key_of(secret)
    assert not secret or str(secret) not in str(caught.value).replace("whsec_ and", "")
