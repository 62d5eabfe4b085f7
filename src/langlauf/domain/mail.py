"""E-mail: addresses, the rules of who may receive how much, the SMTP server, and one mail.

An address in a request has the plain form that every mail server accepts: no display name, no list, no quotes, no
comments, ASCII only. So it cannot smuggle a header into a mail. A domain in another script is written as `xn--…`.
"""

import re
from collections.abc import Collection, Sequence
from ipaddress import ip_address
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from langlauf.domain.instant import Instant
from langlauf.domain.job import JobRecord
from langlauf.domain.rate import Rate

LONGEST_MAIL_ADDRESS = 254
_LONGEST_LOCAL = 64
_WORD = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#: The same for a document: what a receiver's own program may check before it asks.
MAIL_ADDRESS_PATTERN = rf"^{_WORD}(?:\.{_WORD})*@(?:{_LABEL}\.)+[A-Za-z](?:[A-Za-z0-9-]{{0,61}}[A-Za-z0-9])$"
_ADDRESS = re.compile(MAIL_ADDRESS_PATTERN)


def read_mail_address(text: str) -> str:
    """The address as it was given; `ValueError` with what is wrong where it is none."""
    if len(text) > LONGEST_MAIL_ADDRESS:
        raise ValueError(f"must have at most {LONGEST_MAIL_ADDRESS} characters")
    if not _ADDRESS.fullmatch(text) or text.index("@") > _LONGEST_LOCAL:
        raise ValueError("must be one plain e-mail address, such as name@example.org")
    return text


def masked_mail_address(text: str) -> str:
    """An address for lists that others read: whose it is can be recognised, written to it cannot be."""
    local, _, domain = text.rpartition("@")
    return f"{local[:1]}…@{domain}"


#: `allowed` is the org's list of those who may be written to; `unsubscribed` is what a receiver said.
AddressMark = Literal["allowed", "unsubscribed"]
ADDRESS_MARKS: tuple[AddressMark, ...] = ("allowed", "unsubscribed")
#: Why a mail is not sent.
MailRefusal = Literal["unsubscribed", "unlisted", "domain", "org_rate", "address_rate"]
MAIL_REFUSALS: dict[MailRefusal, str] = {
    "unsubscribed": "the address has unsubscribed from mails of this org",
    "unlisted": "the address is not on the list of this org: add it with langlauf mail allow",
    "domain": "the domain of the address is not one that mail may go to: see LANGLAUF_MAIL_DOMAINS",
    "org_rate": "the org has sent as many mails as it may: see mail_rate_org in LANGLAUF_LIMITS",
    "address_rate": "the address has got as many mails of this org as it may: see mail_rate_address in LANGLAUF_LIMITS",
}
_ANY_BELOW = "*."


class MailMark(msgspec.Struct, frozen=True):
    """What an org knows of an address. Fields are in the order of the table's columns."""

    org_id: str
    address: str
    mark: AddressMark
    at: Instant


class MailAdmission(msgspec.Struct, frozen=True, kw_only=True):
    """Asks whether a mail may go out now, and counts it."""

    org_id: str
    notification_id: str
    attempt: int
    #: as `normalized_address` spells it
    address: str
    #: whether it counts: a further try of a mail that was let out before does not
    counted: bool
    only_listed: bool
    org_rate: Rate
    address_rate: Rate


class MailRules(msgspec.Struct, frozen=True):
    """What the operator says about receivers of mail."""

    #: none where mail may go to any
    domains: tuple[str, ...]
    #: whether mail goes to the list of its org alone
    only_listed: bool
    org_rate: Rate
    address_rate: Rate


def normalized_address(address: str) -> str:
    """The one spelling of an address: who unsubscribed has done so for all of them."""
    return address.lower()


def domain_allowed(address: str, domains: Sequence[str]) -> bool:
    """Whether mail may go to the domain of an address; where none is named it may go to any."""
    domain = normalized_address(address).rpartition("@")[2]
    return not domains or any(
        domain.endswith(one[1:]) if one.startswith(_ANY_BELOW) else domain == one for one in domains
    )


def mail_refusal(marks: Collection[str], *, only_listed: bool) -> MailRefusal | None:
    """What an org knows of an address that keeps mail from it."""
    if "unsubscribed" in marks:
        return "unsubscribed"
    return "unlisted" if only_listed and "allowed" not in marks else None


#: `starttls` begins in the open and must change over before anything is said; `implicit` is TLS from the first byte.
Tls = Literal["starttls", "implicit", "none"]
_PORTS = {"smtp": 587, "smtps": 465}
_NAMED = re.compile(r'"?([^"<>]{1,100}?)"?\s*<([^<>]+)>')


class MailServer(msgspec.Struct, frozen=True, kw_only=True):
    """Who takes our mail. What is printed of it has no password."""

    host: str
    port: int
    tls: Tls
    user: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return f"MailServer({self.shown})"

    @property
    def shown(self) -> str:
        """The server for people: where it is and how it is spoken with, and nothing secret."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'smtps' if self.tls == 'implicit' else 'smtp'}://{host}:{self.port}"


class MailSender(msgspec.Struct, frozen=True):
    """Whom mail comes from."""

    address: str
    name: str = ""

    @property
    def domain(self) -> str:
        """What stands behind the sign."""
        return self.address.rpartition("@")[2]


class JobEnding(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a job that has ended; no job where nothing is any more."""

    job: JobRecord | None = None
    #: what its result says at a glance, as JSON text
    summary_json: str | None = None


class Email(msgspec.Struct, frozen=True, kw_only=True):
    """What people read: a line and the same text in two forms."""

    subject: str
    text: str
    html: str
    language: str


def read_mail_server(text: str) -> MailServer:
    """The server in an address like `smtp://user:password@host:587`. What it says of a bad one does not repeat it."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:  # brackets that do not close, a port that is no number
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
    """TLS is a must, save on this machine itself and where somebody says that it is not."""
    wishes = dict(parse_qsl(query, keep_blank_values=True))
    wish = wishes.pop("tls", "none" if scheme == "smtp" and _here(host) else "required")
    if wishes or wish not in {"none", "required"} or (scheme == "smtps" and wish == "none"):
        raise ValueError("behind the question mark stands tls=none or tls=required, and tls=none only with smtp://")
    if scheme == "smtps":
        return "implicit"
    return "starttls" if wish == "required" else "none"


def _here(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def read_sender(text: str) -> MailSender:
    """`jobs@example.org`, or `Name <jobs@example.org>`."""
    match = _NAMED.fullmatch(text.strip())
    name, address = (match[1].strip(), match[2]) if match else ("", text.strip())
    if not name.isprintable():
        raise ValueError("the name has characters that cannot be printed")
    return MailSender(read_mail_address(address), name)


def message_id(notification_id: str, sender: MailSender) -> str:
    """The mark of a mail: the same however often it is sent, so that a repetition can be told."""
    return f"<{notification_id}@{sender.domain}>"
