"""Addresses to which no broker posts: refused as they are read, or because of what their names stand for."""

from __future__ import annotations

__all__ = ["FORBIDDEN_ADDRESSES", "PERMITTED", "REFUSED", "STANDS_FOR"]

_V4 = (
    *("0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "100.127.255.255"),
    *("127.0.0.1", "127.1.2.3", "127.255.255.254", "168.63.129.16", "169.254.0.1", "169.254.169.254"),
    *("169.254.170.2", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.192", "192.0.2.1", "192.31.196.1"),
    *("192.52.193.1", "192.88.99.1", "192.168.0.1", "192.168.255.255", "192.175.48.1", "198.18.0.1"),
    *("198.19.255.255", "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.255.255.250", "240.0.0.1"),
    *("255.255.255.255",),
)
_V6 = (
    *("::", "::1", "::2", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254"),
    *("::ffff:0:127.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::8.8.8.8"),
    *("100::1", "2001::1", "2001:0:53aa:64c:0:7fff:80ff:fffe", "2001:2::1", "2001:10::1", "2001:20::1"),
    *("2001:db8::1", "2001:db8:ffff::1", "2002:7f00:1::1", "2002:0a00:0001::", "2002:a9fe:a9fe::1"),
    *("2002:808:808::1", "2620:4f:8000::1", "3fff::1", "3fff:fff::1", "4000::1", "5f00::1", "8000::1", "fc00::1"),
    *("fd00::1", "fd00:ec2::254", "fe80::1", "fe80::5efe:7f00:1", "febf::1", "fec0::1", "ff02::1", "ff0e::1"),
)
#: Addresses as machines have them.
FORBIDDEN_ADDRESSES = (*_V4, *_V6)
#: Good ones, also such that stand for one of IPv4 that is good.
PERMITTED = (
    *("1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255"),
    *("128.0.0.1", "172.15.255.255", "172.32.0.0", "192.167.255.255", "223.255.255.255", "2606:4700:4700::1111"),
    *("2a00:1450:4001:81b::200e", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"),
)

#: Ways to write 127.0.0.1 and 169.254.169.254, and others, that some readers take for the same.
_NUMBERS = (
    *("2130706433", "0x7f000001", "0x7F000001", "017700000001", "127.1", "127.0.1", "0177.0.0.1", "0x7f.0.0.1"),
    *("127.0.0.0x1", "0x7f.1", "127.000.000.001", "127.0.0.01", "00127.0.0.1", "2852039166", "0xa9fea9fe"),
    *("0251.0376.0251.0376", "169.254.43518", "169.16689662", "0", "0x0", "00000", "1.2.3", "1.2.3.4.5", "256.1.1.1"),
    *("127.0.0.1.", "1.1.1.1.", "0xdeadbeef", "4294967295", "4294967296", "99999999999", "127.0.0.256", "08.8.8.8"),
    *("8.8.8.010", "0x8.8.8.8", "8.8.2056", "8.526344", "1e3", "0x", "0b1", "127.0.0.0b1"),
)
_HOSTS = (
    # names that are none
    *("", ".", "..", ".example.com", "example..com", "example.com.", "-example.com", "example-.com", "exa_mple.com"),
    *(f"{64 * 'a'}.com", f"{'a.' * 130}com", "example.com%00", "example%2ecom", "example%2Ecom", "ex ample.com"),
    *("*.example.com", "example.com,evil.example", "example.com;evil", "[::1", "::1]", "[]", "[:]", "[::1%25eth0]"),
    *("[::1%eth0]", "[fe80::1%1]", "[::ffff:127.0.0.1.]", "[1.2.3.4]", "[v1.a]", "[::g]", "[:::]", "[0:0]"),
    *("[::ffff:0177.0.0.1]", "[::ffff:127.1]", "::1", "fe80::1"),
    # letters that some readers make to plain ones
    *("１２７.0.0.1", "①②⑦.⓪.⓪.①", "١٢٧.0.0.1", "۱۲۷.۰.۰.۱", "localhoſt", "ⓛocalhost", "example。com", "127。0。0。1"),
    *("127．0．0．1", "exämple.com", "еxample.com", "example.com\u200b", "\u202eexample.com", "ⓔxample.com"),
)
_WHOLE = (
    # other schemes, and what looks like one
    *(
        "http://example.com/",
        "HTTPS://example.com/",
        "Https://example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
    ),
    *("gopher://example.com:70/_", "javascript:alert(1)", "data:text/plain,hi", "ws://example.com/", "//example.com/"),
    *("https:example.com", "https:/example.com", "https:///example.com", "https:\\\\example.com", "https//example.com"),
    *("httpss://example.com", "https ://example.com", " https://example.com", "https://example.com ", "", "https://"),
    *(
        "unix:///run/docker.sock",
        "http+unix://socket/",
        "dict://127.0.0.1:11211/",
        "ldap://example.com/",
        "example.com",
    ),
    # users, and who only looks like the host
    *("https://user@example.com/", "https://user:word@example.com/", "https://@example.com/", "https://:@example.com/"),
    *("https://example.com@127.0.0.1/", "https://example.com:443@127.0.0.1/", "https://127.0.0.1@example.com/"),
    *("https://example.com\\@127.0.0.1/", "https://127.0.0.1\\.example.com/", "https://example.com%40127.0.0.1/"),
    *("https://example.com#@127.0.0.1/", "https://example.com?@127.0.0.1/#", "https://a@b@example.com/"),
    *("https://example.com/#fragment", "https://example.com#", "https://example.com\\evil/", "https://example.com/\\"),
    # ports
    *("https://example.com:/", "https://example.com:0/", "https://example.com:22/", "https://example.com:25/"),
    *("https://example.com:53/", "https://example.com:110/", "https://example.com:445/", "https://example.com:1023/"),
    *(
        "https://example.com:65536/",
        "https://example.com:99999/",
        "https://example.com:-1/",
        "https://example.com:+443/",
    ),
    *(
        "https://example.com:0x1bb/",
        "https://example.com:443:443/",
        "https://example.com:４４３/",
        "https://example.com: 443/",
    ),
    *("https://example.com:000443/", "https://example.com:4 43/", "https://example.com:https/"),
    # what ends a line, a header or a text
    *(
        "https://example.com/\r\nHost: evil",
        "https://example.com/\n",
        "https://example.com/\0",
        "https://exa\tmple.com/",
    ),
    *("https://exa\nmple.com/", "https://example.com/a b", "https://example.com/\x7f", "https://example.com/é"),
    *("https://example.com/\u2028", 'https://example.com/"', "https://example.com/<a>", "https://example.com/^"),
    *("https://example.com/`", "https://example.com/{a}", "https://example.com/|", f"https://example.com/{2048 * 'a'}"),
    *("https://[::1]", "https://[::1]:443/", "https://[::ffff:169.254.169.254]/latest/meta-data/", "https://[::]:443/"),
    *("https://[::1].example.com/", "https://[::1]example.com/", "https://example.com[::1]/", "https://[[::1]]/"),
)

#: Refused as they are read, whatever names stand for.
REFUSED = tuple(
    dict.fromkeys(
        [
            *(f"https://{host}/" for host in (*_NUMBERS, *_HOSTS)),
            *(f"https://{address}/hook" for address in _V4),
            *(f"https://[{address}]/hook" for address in _V6),
            *_WHOLE,
        ]
    )
)

_GOOD = "93.184.215.14"
#: Names that are read well, and what a resolver says of each: they are refused when somebody connects.
STANDS_FOR = {
    "localhost": ["127.0.0.1", "::1"],
    "ip6-localhost": ["::1"],
    "app.localhost": ["127.0.0.1"],
    "printer.local": ["192.168.1.7"],
    "metadata.google.internal": ["169.254.169.254"],
    "instance-data": ["169.254.169.254"],
    "kubernetes.default.svc": ["10.96.0.1"],
    "host.docker.internal": ["172.17.0.1"],
    "127.0.0.1.nip.io": ["127.0.0.1"],
    "7f000001.a9fea9fe.rbndr.us": ["169.254.169.254"],
    "one-good-one-bad.example": [_GOOD, "127.0.0.1"],
    "bad-then-good.example": ["10.0.0.1", _GOOD],
    "good-and-loopback-6.example": [_GOOD, "::1"],
    "mapped.example": ["::ffff:127.0.0.1"],
    "translated.example": ["64:ff9b::127.0.0.1"],
    "tunnelled.example": ["2002:7f00:1::1"],
    "teredo.example": ["2001:0:53aa:64c:0:7fff:80ff:fffe"],
    "link-local-6.example": ["fe80::1%lo"],
    "multicast.example": ["224.0.0.251"],
    "everybody.example": ["255.255.255.255"],
    "nobody.example": ["0.0.0.0"],
    "azure-host.example": ["168.63.129.16"],
    "alibaba.example": ["100.100.100.200"],
    "no-address.example": ["not an address"],
    "very-many.example": [f"93.184.{number // 250}.{1 + number % 250}" for number in range(65)],
}
