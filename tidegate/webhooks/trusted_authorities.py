"""The authorities that are trusted beside those that everybody trusts, from the file that the section [webhooks] names.

A broker looks at the file when it is started, the sender of webhooks when it begins. Knows nothing of connections.
"""

from __future__ import annotations

import ssl

from tidegate.errors import SettingError
from tidegate.runs.webhooks_section import WebhooksSection

__all__ = ["check_authorities", "trust_authorities"]


def trust_authorities(context: ssl.SSLContext, section: WebhooksSection) -> None:
    """Have a context trust what the section says; an error if that cannot be read."""
    if section.authorities is None:
        return
    try:
        context.load_verify_locations(section.authorities)
    except (OSError, ssl.SSLError) as error:
        said = error.strerror or str(error)
        raise SettingError("a file of certificates in PEM as authorities", said, section.authorities) from None


def check_authorities(section: WebhooksSection) -> None:
    """Refuse what the sender could not use."""
    trust_authorities(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), section)
