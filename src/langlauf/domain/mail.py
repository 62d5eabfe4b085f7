"""E-mail: addresses, the rules of who may receive how much, the SMTP server, and one mail.

An address in a request has the plain form that every mail server accepts: no display name, no list, no quotes, no
comments, ASCII only. So it cannot smuggle a header into a mail. A domain in another script is written as `xn--…`.
"""

import re
from collections.abc import Sequence
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from langlauf.domain.access import Rate
from langlauf.domain.instant import Instant
from langlauf.domain.job import JobRecord
from langlauf.domain.ssrf import is_loopback

LONGEST_MAIL_ADDRESS = 254
_LONGEST_LOCAL = 64
_WORD = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#: The same for OpenAPI, so that clients can check before they send.
MAIL_ADDRESS_PATTERN = rf"^{_WORD}(?:\.{_WORD})*@(?:{_LABEL}\.)+[A-Za-z](?:[A-Za-z0-9-]{{0,61}}[A-Za-z0-9])$"
_ADDRESS = re.compile(MAIL_ADDRESS_PATTERN)


def read_mail_address(text: str) -> str:
    """Return the address as given; `ValueError` says what is wrong with it."""
    if len(text) > LONGEST_MAIL_ADDRESS:
        raise ValueError(f"must have at most {LONGEST_MAIL_ADDRESS} characters")
    if not _ADDRESS.fullmatch(text) or text.index("@") > _LONGEST_LOCAL:
        raise ValueError("must be one plain e-mail address, such as name@example.org")
    return text


def masked_mail_address(text: str) -> str:
    """Return an address for lists that others read: recognizable, but not usable."""
    local, _, domain = text.rpartition("@")
    return f"{local[:1]}…@{domain}"


#: `allowed`: on the org's list of receivers; `unsubscribed`: the receiver opted out.
AddressMark = Literal["allowed", "unsubscribed"]
#: Why a mail is not sent.
MailRefusal = Literal["unsubscribed", "unlisted", "domain", "org_rate", "address_rate"]
MAIL_REFUSALS: dict[MailRefusal, str] = {
    "unsubscribed": "the address has unsubscribed from mails of this org",
    "unlisted": "the address is not on the list of this org: add it with langlauf mail allow",
    "domain": "mail may not go to the domain of the address; the operator sets the domains with LANGLAUF_MAIL_DOMAINS",
    "org_rate": "the org has sent as many mails as it may; the limit is mail_rate_org in LANGLAUF_LIMITS",
    "address_rate": (
        "the address has got as many mails of this org as it may; the limit is mail_rate_address in LANGLAUF_LIMITS"
    ),
}
_ANY_BELOW = "*."


class MailMark(msgspec.Struct, frozen=True):
    """A mark of an org on an address. Fields are in the order of the table's columns."""

    org_id: str
    address: str
    mark: AddressMark
    at: Instant


class MailAdmission(msgspec.Struct, frozen=True, kw_only=True):
    """Request to send a mail now, which counts it."""

    org_id: str
    notification_id: str
    attempt: int
    #: as `normalized_address` returns it
    address: str
    #: False for a further try of a mail that was admitted before
    counted: bool
    only_listed: bool
    org_rate: Rate
    address_rate: Rate


class MailRules(msgspec.Struct, frozen=True):
    """The operator's rules for receivers of mail."""

    #: empty if mail may go to any domain
    domains: tuple[str, ...]
    #: whether mail goes to the org's list only
    only_listed: bool
    org_rate: Rate
    address_rate: Rate


def normalized_address(address: str) -> str:
    """Return the one spelling of an address: an unsubscription is for all of them."""
    return address.lower()


def domain_allowed(address: str, domains: Sequence[str]) -> bool:
    """Whether mail may go to the domain of an address; without domains it may go to any."""
    domain = normalized_address(address).rpartition("@")[2]
    return not domains or any(
        domain.endswith(one[1:]) if one.startswith(_ANY_BELOW) else domain == one for one in domains
    )


#: `starttls` starts in plain text and must upgrade before anything is sent; `implicit` is TLS from the first byte.
Tls = Literal["starttls", "implicit", "none"]
_PORTS = {"smtp": 587, "smtps": 465}
_NAMED = re.compile(r'"?([^"<>]{1,100}?)"?\s*<([^<>]+)>')


class MailServer(msgspec.Struct, frozen=True, kw_only=True):
    """The SMTP server. Its repr has no password."""

    host: str
    port: int
    tls: Tls
    user: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return f"MailServer({self.shown})"

    @property
    def shown(self) -> str:
        """Return the server for people: address and protocol, without credentials."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'smtps' if self.tls == 'implicit' else 'smtp'}://{host}:{self.port}"


class MailSender(msgspec.Struct, frozen=True):
    """The sender of mails."""

    address: str
    name: str = ""

    @property
    def domain(self) -> str:
        """Return the domain of the address."""
        return self.address.rpartition("@")[2]


class JobEnding(msgspec.Struct, frozen=True, kw_only=True):
    """An ended job for its mail; no job if nothing of it is left."""

    job: JobRecord | None = None
    #: the summary of its result, as JSON text
    summary_json: str | None = None


class Email(msgspec.Struct, frozen=True, kw_only=True):
    """A mail: its subject, and its text in two forms."""

    subject: str
    text: str
    html: str
    language: str


def read_mail_server(text: str) -> MailServer:
    """Parse the URL of a server like `smtp://user:password@host:587`. The error for a bad one does not repeat it."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:  # unclosed brackets, or a port that is not a number
        host, port = None, None
        parts = urlsplit("")
    if parts.scheme not in _PORTS or not host or port == 0 or parts.path.strip("/") or parts.fragment:
        raise ValueError("give an address like smtp://user:password@host:587 or smtps://user:password@host:465")
    if (parts.username is None) != (parts.password is None):
        raise ValueError("give a user and a password, or neither; write @ : / in them as %40 %3A %2F")
    return MailServer(
        host=host,
        port=port or _PORTS[parts.scheme],
        tls=_tls(parts.scheme, host, parts.query),
        user=None if parts.username is None else unquote(parts.username),
        password=None if parts.password is None else unquote(parts.password),
    )


def _tls(scheme: str, host: str, query: str) -> Tls:
    """Return the TLS mode: required except on loopback or with `?tls=none`."""
    options = dict(parse_qsl(query, keep_blank_values=True))
    mode = options.pop("tls", "none" if scheme == "smtp" and is_loopback(host) else "required")
    if options or mode not in {"none", "required"} or (scheme == "smtps" and mode == "none"):
        raise ValueError("the query may be tls=none or tls=required, and tls=none only with smtp://")
    if scheme == "smtps":
        return "implicit"
    return "starttls" if mode == "required" else "none"


def read_sender(text: str) -> MailSender:
    """Parse `jobs@example.org` or `Name <jobs@example.org>`."""
    match = _NAMED.fullmatch(text.strip())
    name, address = (match[1].strip(), match[2]) if match else ("", text.strip())
    if not name.isprintable():
        raise ValueError("the name has unprintable characters")
    return MailSender(read_mail_address(address), name)


def message_id(notification_id: str, sender: MailSender) -> str:
    """Return the Message-ID: the same for every try, so that repetitions can be recognized."""
    return f"<{notification_id}@{sender.domain}>"
