"""The address of a client: the peer of the connection, or the address that a trusted proxy forwards."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import msgspec

from langlauf.domain.ssrf import Network
from langlauf.settings import Settings

Address = IPv4Address | IPv6Address
#: No chain of proxies is longer; further hops are not parsed.
_MOST_HOPS = 32
_SITE_BITS = 64


class TrustedProxies(msgspec.Struct, frozen=True):
    """Networks of trusted proxies, and the header in which they forward the client's address."""

    networks: tuple[Network, ...]
    #: in lower case, as in the ASGI scope
    header: bytes

    def client_of(self, peer: str | None, headers: Iterable[tuple[bytes, bytes]]) -> Address | None:
        """Return the right-most address that is not a trusted proxy; None where the connection has no address.

        A client may send the header itself, so it counts only behind a trusted proxy, and only up to the first
        address, from the right, that no trusted proxy wrote. Where that is malformed, the proxy's address counts.
        """
        address = _read(peer or "")
        if address is None or not self._trusts(address):
            return address
        named = b",".join(value for name, value in headers if name == self.header).decode("latin-1")
        for hop in reversed(named.rsplit(",", _MOST_HOPS)[-_MOST_HOPS:]):
            further = _read(hop)
            if further is None:
                return address
            address = further
            if not self._trusts(address):
                return address
        return address

    def _trusts(self, address: Address) -> bool:
        return any(address in network for network in self.networks)


def trusted_proxies(settings: Settings) -> TrustedProxies:
    """Return the trusted proxies of the settings."""
    return TrustedProxies(settings.trusted_proxies, settings.proxy_header.lower().encode())


def network_of(address: Address) -> str:
    """Return the unit that rate limits count: the address, or the /64 network of an IPv6 address."""
    if isinstance(address, IPv6Address):
        return str(ip_network((address, _SITE_BITS), strict=False))
    return str(address)


def _read(text: str) -> Address | None:
    """Parse an address with or without a port; return None where it is invalid."""
    text = text.strip(" \t")
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
