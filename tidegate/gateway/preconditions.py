"""ETags and the headers that name them: ``If-Match`` and ``If-None-Match`` (RFC 9110, section 13.1).

An answer that is compressed has an ETag of its own, which names the same state of the resource: who has read that may
replace it. Knows nothing of what has an ETag.
"""

from __future__ import annotations

import re

from tidegate.errors import shown
from tidegate.gateway.answer_encodings import without_encoding
from tidegate.gateway.problems import RequestError

__all__ = ["EntityTags"]

_TAG = re.compile(r'\s*((?:W/)?"[\x21\x23-\x7e\x80-\xff]*")\s*(?:,|$)')


class EntityTags:
    """The ETags that a header names, or ``*`` for any."""

    def __init__(self, header: str, name: str) -> None:
        self.is_any = header.strip() == "*"
        tags, at = list[str](), 0
        while not self.is_any and at < len(header):
            found = _TAG.match(header, at)
            if found is None:
                raise RequestError(400, "header", 'ETags such as "1f", or *', shown(header), f"the header {name}")
            tags.append(found[1])
            at = found.end()
        if not self.is_any and not tags:
            raise RequestError(400, "header", 'ETags such as "1f", or *', "none", f"the header {name}")
        self._tags = {without_encoding(tag): tag for tag in tags}

    def has(self, etag: str | None) -> bool:
        """Whether this is one of them; None is that of nothing."""
        return etag is not None and (self.is_any or etag in self._tags)

    def has_weakly(self, etag: str | None) -> bool:
        """Whether it is one of them, weak or strong, which is the same for those who only read."""
        return self.has(etag) or (etag is not None and f"W/{etag}" in self._tags)

    def given(self, etag: str) -> str:
        """The ETag, as that of the encoding whose ETag was named: what is kept of that is still right."""
        return self._tags.get(etag, self._tags.get(f"W/{etag}", etag)).removeprefix("W/")
