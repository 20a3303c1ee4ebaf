"""Which addresses of machines a broker may post to: public ones, and those of networks that its operator allows.

An IPv6 address may stand for one of IPv4, or lead to one through a translator; then both must be public. Resolves no
names and opens no sockets.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

__all__ = ["Address", "Network", "is_permitted", "networks_of"]

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

#: Nobody's, everybody's or this site's, by the registries of special addresses (RFC 6890 and later), and beside them
#: what clouds answer at: 168.63.129.16 is public by its number, and each machine of Azure reaches its host there.
_SPECIAL = tuple(
    map(
        ip_network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16"),
            *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24"),
            *("192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
            *("224.0.0.0/4", "240.0.0.0/4"),
        ),
    )
)
#: Of IPv6 only what is given out to the public is good, without what tunnels, translates, documents or measures.
_GLOBAL = IPv6Network("2000::/3")
_SPECIAL_6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20")))
#: An address of IPv4 in one of IPv6: mapped, and translated (NAT64, RFC 6052).
_MAPPED, _TRANSLATED = IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96")
_LOW = 0xFFFFFFFF


def networks_of(texts: Sequence[str]) -> tuple[Network, ...]:
    """The networks that texts stand for, which were checked before."""
    return tuple(map(ip_network, texts))


def is_permitted(address: Address, allowed: Sequence[Network]) -> bool:
    """Whether a broker may post to an address."""
    if any(address in network for network in allowed):
        return True
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _SPECIAL)
    if address in _MAPPED or address in _TRANSLATED:
        return is_permitted(IPv4Address(int(address) & _LOW), allowed)
    is_public = address in _GLOBAL and address.scope_id is None
    return is_public and not any(address in network for network in _SPECIAL_6)
