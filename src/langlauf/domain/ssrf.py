"""SSRF protection: which addresses webhooks may call. Private addresses are refused in any spelling.

An IPv6 address can embed an IPv4 address that packets end up at (NAT64, 6to4, Teredo, ISATAP, mapped, compatible): both
are checked. Ranges that the operator allows may be called although they are private; cloud metadata, broadcast and
multicast never, and link-local only if the allowed range lies within it.

The tables are our own: what `ipaddress` calls global differs between releases of Python.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


@lru_cache(64)
def is_loopback(host: str) -> bool:
    """Whether a host name or an address means this machine only. Kept, because each request asks for its server's."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


class AllowedRange(NamedTuple):
    """A private range that webhooks may call: for one org, or for all."""

    org_id: str | None
    network: Network


def allowed_networks(allow: Iterable[AllowedRange], org_id: str) -> tuple[Network, ...]:
    """Return the private ranges that webhooks of an org may call."""
    return tuple(one.network for one in allow if one.org_id is None or one.org_id == org_id)


_GLOBAL_UNICAST = IPv6Network("2000::/3")
_MAPPED = IPv6Network("::ffff:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")

#: IPv6 ranges that embed an IPv4 address, and its offset in bits from the right.
_CARRIERS: tuple[tuple[IPv6Network, tuple[int, ...]], ...] = (
    (IPv6Network("::/96"), (0,)),  # IPv4-compatible
    (_MAPPED, (0,)),
    (IPv6Network("::ffff:0:0:0/96"), (0,)),  # IPv4-translated
    (_NAT64, (0,)),
    (IPv6Network("2002::/16"), (80,)),  # 6to4
    (IPv6Network("2001::/32"), (64,)),  # Teredo: the server; the client's address is inverted, see below
)
_TEREDO = IPv6Network("2001::/32")
#: Local-use NAT64, whose prefix may have any length of the standard; bits 64 to 71 are skipped.
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
_WHOLE_V4 = 0xFFFF_FFFF

_NAMED: tuple[tuple[str, str], ...] = (
    ("unspecified", "0.0.0.0/8 ::/128"),
    ("private", "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7"),
    ("shared with a carrier", "100.64.0.0/10"),
    ("loopback", "127.0.0.0/8 ::1/128"),
    ("link-local", "169.254.0.0/16 fe80::/10"),
    ("site-local", "fec0::/10"),
    ("kept for protocols", "192.0.0.0/24 192.88.99.0/24 2001::/23 2002::/16 64:ff9b:1::/48"),
    ("for documentation", "192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 2001:db8::/32 3fff::/20"),
    ("for benchmarks", "198.18.0.0/15"),
    ("multicast", "224.0.0.0/4 ff00::/8"),
    ("reserved", "240.0.0.0/4"),
)


def _networks(text: str) -> tuple[Network, ...]:
    return tuple(ip_network(word) for word in text.split())


_INNER: tuple[tuple[str, tuple[Network, ...]], ...] = tuple((name, _networks(text)) for name, text in _NAMED)
_LINK_LOCAL = _networks("169.254.0.0/16 fe80::/10")
#: Metadata services of clouds, which hand out credentials. Some are in ranges that look public.
_METADATA = _networks(
    "169.254.169.254/32 169.254.169.253/32 169.254.169.123/32 169.254.170.2/32 169.254.170.23/32 169.254.0.23/32 "
    "169.254.42.42/32 168.63.129.16/32 100.100.100.200/32 192.0.0.192/32 "
    "fd00:ec2::254/128 fd00:ec2::23/128 fd00:ec2::253/128 fd00:ec2::123/128 fd20:ce::254/128 fd00:42::42/128"
)
#: Not addresses of a single machine, or this machine itself: no allowed range includes them.
_NEVER = _networks("0.0.0.0/8 ::/128 224.0.0.0/4 ff00::/8 255.255.255.255/32")


def unwrap_mapped(address: Address) -> Address:
    """Return the address that is connected to: an IPv4-mapped address is the IPv4 address."""
    if isinstance(address, IPv6Address) and address in _MAPPED:
        return IPv4Address(int(address) & _WHOLE_V4)
    return address


def embedded_ipv4(address: Address) -> tuple[IPv4Address, ...]:
    """Return the IPv4 addresses that an IPv6 address may lead to."""
    return tuple(dict.fromkeys(_carried(address))) if isinstance(address, IPv6Address) else ()


def _carried(address: IPv6Address) -> Iterator[IPv4Address]:
    bits = int(address)
    for network, places in _CARRIERS:
        if address in network:
            yield from (IPv4Address(bits >> place & _WHOLE_V4) for place in places)
    if address in _TEREDO:
        yield IPv4Address(~bits & _WHOLE_V4)
    if address in _LOCAL_NAT64:
        yield from _after_prefix(bits)
    if bits >> 32 & _WHOLE_V4 in _ISATAP:
        yield IPv4Address(bits & _WHOLE_V4)


def _after_prefix(bits: int) -> Iterator[IPv4Address]:
    """Yield the addresses after a prefix of 48, 56, 64 or 96 bits, by the rules of NAT64."""
    yield IPv4Address(bits & _WHOLE_V4)
    for length in (48, 56, 64):
        before = bits >> 64 & (1 << (64 - length)) - 1
        after_bits = 32 - (64 - length)
        after = bits >> (56 - after_bits) & (1 << after_bits) - 1
        yield IPv4Address(before << after_bits | after)


def refusal_reason(address: Address, allow: Sequence[Network] = ()) -> str | None:
    """Return why an address must not be called, or None if it may be."""
    address = unwrap_mapped(address)
    leads_to = (address, *embedded_ipv4(address))
    if getattr(address, "scope_id", None) is not None:
        return "an address with a zone"
    if _any_in(leads_to, _METADATA):
        return "a cloud's metadata service"
    if _any_in((address,), _NEVER):
        return "not the address of a single machine"
    if is_allowed(address, allow):
        return None
    name = next(filter(None, map(_inner_name, leads_to)), None)
    return None if name is None else f"on a private network ({name})"


def is_allowed(address: Address, allow: Sequence[Network]) -> bool:
    """Whether the operator allows the address, also with http and on any port.

    A range that is wider than link-local does not include link-local.
    """
    address = unwrap_mapped(address)
    named = [network for network in allow if address in network]
    if _any_in((address, *embedded_ipv4(address)), _LINK_LOCAL):
        named = [network for network in named if any(_within(network, wide) for wide in _LINK_LOCAL)]
    return bool(named)


def is_allowed_private(address: Address, allow: Sequence[Network]) -> bool:
    """Whether a private address may be called only because the operator allows it."""
    return refusal_reason(address) is not None and refusal_reason(address, allow) is None


def _any_in(addresses: Iterable[Address], networks: Iterable[Network]) -> bool:
    networks = tuple(networks)
    return any(address in network for address in addresses for network in networks)


def _inner_name(address: Address) -> str | None:
    reserved = isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST and address not in _NAT64
    named = (name for name, networks in _INNER if _any_in((address,), networks))
    return next(named, "reserved" if reserved else None)


def _within(network: Network, wide: Network) -> bool:
    if isinstance(network, IPv4Network):
        return isinstance(wide, IPv4Network) and network.subnet_of(wide)
    return isinstance(wide, IPv6Network) and network.subnet_of(wide)
