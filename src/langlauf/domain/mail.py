"""E-mail as values: the server that takes it, whom it comes from, and one letter."""

import re
from ipaddress import ip_address
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from langlauf.domain.job import JobRecord
from langlauf.domain.mail_address import read_mail_address

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
