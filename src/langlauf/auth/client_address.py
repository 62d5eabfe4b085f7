"""The address of a client: of the peer that connects, or the one that a trusted proxy names."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import msgspec

from langlauf.domain.ssrf import Network
from langlauf.settings import Settings

Address = IPv4Address | IPv6Address
#: No proxy before a server adds that many; more is not looked through for every request.
_MOST_HOPS = 32
_SITE_BITS = 64


class TrustedProxies(msgspec.Struct, frozen=True):
    """Which proxies are believed, and the header in which they name their client."""

    networks: tuple[Network, ...]
    #: in lower case, as in the scope of a request
    header: bytes

    def client_of(self, peer: str | None, headers: Iterable[tuple[bytes, bytes]]) -> Address | None:
        """Return the right-most address that is no trusted proxy; None where the connection has no address.

        A client may send the header itself, so it says something only behind a trusted proxy, and only up to the first
        address, from the right, that no trusted proxy has written. Where that is malformed, the proxy stands for it.
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
    """Return the proxies that the settings name."""
    return TrustedProxies(settings.trusted_proxies, settings.proxy_header.lower().encode())


def network_of(address: Address) -> str:
    """Return what one client is counted by: an address, or with IPv6 the /64 of a site."""
    if isinstance(address, IPv6Address):
        return str(ip_network((address, _SITE_BITS), strict=False))
    return str(address)


def _read(text: str) -> Address | None:
    """Read an address, with or without a port; None where it is none."""
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
