"""Where a webhook goes: a web address, read strictly, so that nobody downstream reads it another way."""

import re
from collections.abc import Sequence
from ipaddress import AddressValueError, IPv4Address, IPv6Address

import msgspec

from langlauf.domain.addresses import Address, Network, allowed, refusal
from langlauf.domain.errors import TargetRefused

LONGEST_URL = 2_048
_LONGEST_HOST = 253
_LARGEST_PORT = 65_535
_ONLY_PUBLIC = "only public addresses may be called, and those that the operator names in LANGLAUF_WEBHOOK_ALLOW"
_DEFAULT_PORTS = {"http": 80, "https": 443}

_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)"
    r"(?P<path>/(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*)?"
    r"(?P<query>\?(?:[A-Za-z0-9._~!$&'()*+,;=:@/?\[\]-]|%[0-9A-Fa-f]{2})*)?"
)
_AUTHORITY = re.compile(r"(?:\[(?P<six>[^\]]*)\]|(?P<name>[^:\[\]]*))(?::(?P<port>[0-9]{1,5}))?")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
#: Names that mean this machine or a network's own, whatever a resolver says.
_INNER_NAMES = ("localhost", "localdomain", "local", "internal", "intranet", "lan", "home.arpa", "ip6-localhost")


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A web address that may be called as far as one can tell by looking at it."""

    scheme: str
    #: a name in lower case, or an address without brackets
    host: str
    port: int
    #: with the query
    path: str
    #: where the host is an address
    address: Address | None = None

    @property
    def ordinary(self) -> bool:
        """Whether it is https at its usual port; anything else is for ranges that the operator named."""
        return self.scheme == "https" and self.port == _DEFAULT_PORTS["https"]

    @property
    def authority(self) -> str:
        """Host and port as they stand in an address and in the header `Host`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """The lane of what goes there: one server, whatever the path."""
        return f"{self.scheme}://{self.authority}"

    @property
    def url(self) -> str:
        """The address, spelled in the one way that everybody understands."""
        return self.origin + self.path


def check_url(text: str, allow: Sequence[Network] = (), *, own: str | None = None) -> Target:
    """Reads a web address that webhooks are to go to; `TargetRefused` says what is wrong with it.

    A name is judged when it is called, with all that it stands for then. `own` is the address of this very server.
    """
    target = _read(text)
    if target.scheme not in _DEFAULT_PORTS:
        raise TargetRefused("the address must start with https://")
    if target.address is not None:
        check_address(target, target.address, allow)
    elif not allow:
        _check_outside(target)
    if own is not None and _same_server(target, own):
        raise TargetRefused("the address is this server's own: a webhook must go to another one")
    return target


def check_address(target: Target, address: Address, allow: Sequence[Network]) -> None:
    """Whether what the host stands for may be called; `TargetRefused` says why not."""
    reason = refusal(address, allow)
    if reason is not None:
        raise TargetRefused(f"{target.host} is {reason}: {_ONLY_PUBLIC}")
    if not target.ordinary and not allowed(address, allow):
        raise TargetRefused(_ordinary_reason(target))


def _same_server(target: Target, own: str) -> bool:
    """Whether an address leads to us; at the usual ports, http and https are one server."""
    try:
        us = _read(own)
    except TargetRefused:
        return False
    usual = _DEFAULT_PORTS.values()
    return target.host == us.host and (target.port == us.port or (target.port in usual and us.port in usual))


def _check_outside(target: Target) -> None:
    """A name that can only mean something inside, or another way to call it than the usual one."""
    if not target.ordinary:
        raise TargetRefused(_ordinary_reason(target))
    if "." not in target.host or any(target.host == one or target.host.endswith(f".{one}") for one in _INNER_NAMES):
        raise TargetRefused(f"{target.host} is a name inside a network: {_ONLY_PUBLIC}")


def _ordinary_reason(target: Target) -> str:
    if target.scheme != "https":
        return "the address must start with https://"
    return f"the address must be at port {_DEFAULT_PORTS['https']}, not {target.port}"


def _read(text: str) -> Target:
    if len(text) > LONGEST_URL:
        raise TargetRefused(f"the address is longer than {LONGEST_URL} characters")
    if not text.isascii():
        raise TargetRefused(
            "the address has characters outside ASCII: write the host as xn--… and the rest percent-encoded"
        )
    if "#" in text:
        raise TargetRefused("the address must not have a fragment (#)")
    parts = _URL.fullmatch(text)
    if parts is None:
        raise TargetRefused("this is no web address: give one such as https://example.com/hooks")
    host, address, port = _read_authority(parts["authority"])
    scheme = parts["scheme"].lower()
    return Target(
        scheme=scheme,
        host=host,
        port=_DEFAULT_PORTS.get(scheme, 0) if port is None else port,
        path=(parts["path"] or "/") + (parts["query"] or ""),
        address=address,
    )


def _read_authority(text: str) -> tuple[str, Address | None, int | None]:
    if "@" in text:
        raise TargetRefused("the address must not have a user or a password in it")
    parts = _AUTHORITY.fullmatch(text)
    if parts is None:
        raise TargetRefused("the host of the address cannot be read")
    port = None if parts["port"] is None else int(parts["port"])
    if port is not None and not 1 <= port <= _LARGEST_PORT:
        raise TargetRefused(f"there is no port {port}")
    host, address = _read_bracketed(parts["six"]) if parts["six"] is not None else _read_host(parts["name"].lower())
    return host, address, port


def _read_bracketed(text: str) -> tuple[str, Address]:
    if "%" in text:
        raise TargetRefused("an address of one link alone (%) cannot be called")
    try:
        address = IPv6Address(text)
    except AddressValueError:
        raise TargetRefused("what stands in brackets is no address of IPv6") from None
    return str(address), address


def _read_host(name: str) -> tuple[str, Address | None]:
    if not name:
        raise TargetRefused("the address has no host")
    if name.endswith("."):
        raise TargetRefused("the host must not end with a dot")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):  # whoever reads it as an address must read the same one as we do
        try:
            address = IPv4Address(name)
        except AddressValueError:
            raise TargetRefused("a host that is a number must be written as four numbers, such as 192.0.2.1") from None
        return str(address), address
    if len(name) > _LONGEST_HOST or not all(_LABEL.fullmatch(label) for label in labels):
        raise TargetRefused("the host is no name: letters, digits and hyphens, with single dots between")
    return name, None
