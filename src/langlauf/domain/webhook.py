"""Webhooks: URLs, read so strictly that no other parser can read them differently, and signatures.

Signatures follow Standard Webhooks: HMAC-SHA256 over id, timestamp and body. A secret is `whsec_` and 24 to 64 bytes in
Base64. The secret of an endpoint is derived from one that the store keeps, the endpoint's id and the secret's version,
so it is never stored. The secret of an org, which signs for URLs that its jobs name, is derived from the operator's: a
receiver needs that of its own org only.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable, Sequence
from ipaddress import AddressValueError, IPv4Address, IPv6Address

import msgspec

from langlauf.domain.errors import WebhookUrlRefused
from langlauf.domain.ssrf import Address, Network, is_allowed, refusal_reason

LONGEST_WEBHOOK_URL = 2_048
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
#: Names of this machine or of a private network, whatever a resolver returns.
_INNER_NAMES = ("localhost", "localdomain", "local", "internal", "intranet", "lan", "home.arpa", "ip6-localhost")


class WebhookUrl(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook URL that passed all checks that need no DNS."""

    scheme: str
    #: a lower-case name, or an address without brackets
    host: str
    port: int
    #: including the query
    path: str
    #: set if the host is an address
    address: Address | None = None

    @property
    def ordinary(self) -> bool:
        """Whether it is https on the default port; anything else is for ranges that the operator allows."""
        return self.scheme == "https" and self.port == _DEFAULT_PORTS["https"]

    @property
    def authority(self) -> str:
        """Return host and port as in a URL and in the header `Host`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Return scheme, host and port: the lane of its messages, whatever the path."""
        return f"{self.scheme}://{self.authority}"

    @property
    def url(self) -> str:
        """Return the URL in its normalized spelling."""
        return self.origin + self.path


def read_webhook_url(text: str, allow: Sequence[Network] = (), *, own: str | None = None) -> WebhookUrl:
    """Parse and check a webhook URL; `WebhookUrlRefused` says what is wrong with it.

    A host name is checked when it is called, with every address it resolves to then. `own` is the URL of this server.
    """
    target = _read(text)
    if target.scheme not in _DEFAULT_PORTS:
        raise WebhookUrlRefused("the URL must start with https://", "https")
    if target.address is not None:
        check_address(target, target.address, allow)
    elif not allow:
        _check_outside(target)
    if own is not None and _same_server(target, own):
        raise WebhookUrlRefused("the URL is this server's own: give that of another server", "own")
    return target


def check_address(target: WebhookUrl, address: Address, allow: Sequence[Network]) -> None:
    """Check an address that the host resolves to; `WebhookUrlRefused` says why it may not be called."""
    reason = refusal_reason(address, allow)
    if reason is not None:
        raise WebhookUrlRefused(f"{target.host} is {reason}: {_ONLY_PUBLIC}", "inner", target.host)
    if not target.ordinary and not is_allowed(address, allow):
        raise _not_ordinary(target)


def _same_server(target: WebhookUrl, own: str) -> bool:
    """Whether the URL leads to this server; http and https on default ports are the same server."""
    try:
        us = _read(own)
    except WebhookUrlRefused:
        return False
    usual = _DEFAULT_PORTS.values()
    return target.host == us.host and (target.port == us.port or (target.port in usual and us.port in usual))


def _check_outside(target: WebhookUrl) -> None:
    """Refuse private names, and any scheme or port but the default, if the operator allows no ranges."""
    if not target.ordinary:
        raise _not_ordinary(target)
    if "." not in target.host or any(target.host == one or target.host.endswith(f".{one}") for one in _INNER_NAMES):
        raise WebhookUrlRefused(f"{target.host} is a name of a private network: {_ONLY_PUBLIC}", "inner", target.host)


def _not_ordinary(target: WebhookUrl) -> WebhookUrlRefused:
    if target.scheme != "https":
        return WebhookUrlRefused("the URL must start with https://", "https")
    port = _DEFAULT_PORTS["https"]
    return WebhookUrlRefused(f"the URL must use port {port}, not {target.port}", "port", str(port))


def _read(text: str) -> WebhookUrl:
    if len(text) > LONGEST_WEBHOOK_URL:
        raise WebhookUrlRefused(f"the URL is longer than {LONGEST_WEBHOOK_URL} characters")
    if not text.isascii():
        raise WebhookUrlRefused(
            "the URL has characters outside ASCII: write the host as xn--… and the rest percent-encoded"
        )
    if "#" in text:
        raise WebhookUrlRefused("the URL must not have a fragment (#)")
    parts = _URL.fullmatch(text)
    if parts is None:
        raise WebhookUrlRefused("not a URL: give one such as https://example.com/hooks")
    host, address, port = _read_authority(parts["authority"])
    scheme = parts["scheme"].lower()
    return WebhookUrl(
        scheme=scheme,
        host=host,
        port=_DEFAULT_PORTS.get(scheme, 0) if port is None else port,
        path=(parts["path"] or "/") + (parts["query"] or ""),
        address=address,
    )


def _read_authority(text: str) -> tuple[str, Address | None, int | None]:
    if "@" in text:
        raise WebhookUrlRefused("the URL must not have a user or a password", "user")
    parts = _AUTHORITY.fullmatch(text)
    if parts is None:
        raise WebhookUrlRefused("the host of the URL is malformed")
    port = None if parts["port"] is None else int(parts["port"])
    if port is not None and not 1 <= port <= _LARGEST_PORT:
        raise WebhookUrlRefused(f"there is no port {port}")
    host, address = _read_bracketed(parts["six"]) if parts["six"] is not None else _read_host(parts["name"].lower())
    return host, address, port


def _read_bracketed(text: str) -> tuple[str, Address]:
    if "%" in text:
        raise WebhookUrlRefused("an address with a zone (%) cannot be called")
    try:
        address = IPv6Address(text)
    except AddressValueError:
        raise WebhookUrlRefused("the host in brackets is not an IPv6 address") from None
    return str(address), address


def _read_host(name: str) -> tuple[str, Address | None]:
    if not name:
        raise WebhookUrlRefused("the URL has no host")
    if name.endswith("."):
        raise WebhookUrlRefused("the host must not end with a dot")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):  # other parsers would read it as an address: it must be the same one
        try:
            address = IPv4Address(name)
        except AddressValueError:
            raise WebhookUrlRefused(
                "a host that is a number must be written as four numbers, such as 192.0.2.1"
            ) from None
        return str(address), address
    if len(name) > _LONGEST_HOST or not all(_LABEL.fullmatch(label) for label in labels):
        raise WebhookUrlRefused("the host is not a name: use letters, digits and hyphens, with single dots between")
    return name, None


SECRET_PREFIX = "whsec_"  # noqa: S105 - the prefix, not a secret
#: The purpose under which the store keeps the secret that endpoint secrets are derived from.
ENDPOINT_SECRETS_PURPOSE = "webhook endpoints"
_FEWEST_BYTES = 24
_MOST_BYTES = 64


def read_secret(text: str) -> bytes:
    """Return the bytes of a secret; the `ValueError` for a bad one does not repeat it."""
    if not text.startswith(SECRET_PREFIX):
        raise ValueError(f"a secret starts with {SECRET_PREFIX}")
    try:
        secret = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error:
        raise ValueError(f"what follows {SECRET_PREFIX} must be Base64") from None
    if not _FEWEST_BYTES <= len(secret) <= _MOST_BYTES:
        raise ValueError(f"a secret has {_FEWEST_BYTES} to {_MOST_BYTES} bytes, this one has {len(secret)}")
    return secret


def secret_text(secret: bytes) -> str:
    """Return a secret in the form that its owner sees."""
    return SECRET_PREFIX + base64.b64encode(secret).decode()


def endpoint_secret(master: bytes, org_id: str, endpoint_id: str, version: int) -> bytes:
    """Derive the secret of an endpoint; always the same for the same version."""
    return hmac.digest(master, f"webhook {org_id} {endpoint_id} {version}".encode(), hashlib.sha256)


def org_secret(operator_secret: bytes, org_id: str) -> bytes:
    """Derive the secret that signs for the jobs of an org; it does not reveal the operator's or another org's."""
    return hmac.digest(operator_secret, f"webhooks of org {org_id}".encode(), hashlib.sha256)


def signatures(secrets: Iterable[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """Return the header `webhook-signature`: one signature per secret, so that receivers can switch over."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return " ".join(f"v1,{base64.b64encode(hmac.digest(one, signed, hashlib.sha256)).decode()}" for one in secrets)
