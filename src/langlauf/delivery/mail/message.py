"""A letter becomes the bytes that go over the wire.

Headers are made by the older half of the standard library: the newer one reads what it is given, so that a subject that
looks encoded would be decoded, and loses spaces between words that it encodes.
"""

from email.charset import QP, Charset
from email.header import Header
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from email.policy import compat32
from email.utils import format_datetime, formataddr
from urllib.parse import quote

from langlauf.domain.instant import Instant, to_datetime
from langlauf.domain.mail import Email, MailSender

#: What an address is made of; anything else is written as %XX.
_OF_ADDRESSES = "%/:?#[]@!$&'()*+,;=~"
_POLICY = compat32.clone(linesep="\r\n")


def mail_bytes(
    letter: Email, *, sender: MailSender, to: str, message_id: str, now: Instant, unsubscribe: str | None = None
) -> bytes:
    """The mail with both forms of its text; all of it is ASCII, so that any server can pass it on.

    `unsubscribe` is the address that ends mails like this one: a page, or a mailbox.
    """
    mail = MIMEMultipart("alternative")
    mail["From"] = formataddr((sender.name, sender.address))
    mail["To"] = to
    mail["Subject"] = _subject(letter.subject)  # type: ignore[assignment]  # the stub knows the newer half alone
    mail["Date"] = format_datetime(to_datetime(now))
    mail["Message-ID"] = message_id
    # Nobody's absence is to be answered to, and no list is to pass it on as a person's word.
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"
    mail["Content-Language"] = letter.language
    mail.attach(_part(letter.text, "plain"))
    mail.attach(_part(letter.html, "html"))
    return _unsubscribing(unsubscribe) + mail.as_bytes(policy=_POLICY)


def _unsubscribing(address: str | None) -> bytes:
    """The headers that end mails like this one.

    They are written by hand, on one line each: the library would fold so long an address behind an empty first line.
    """
    if address is None:
        return b""
    lines = [f"List-Unsubscribe: <{quote(address, safe=_OF_ADDRESSES)}>"]
    if address.startswith("https:"):  # one click: RFC 8058 knows no other scheme
        lines.append("List-Unsubscribe-Post: List-Unsubscribe=One-Click")
    return "".join(f"{line}\r\n" for line in lines).encode("ascii")


def unsubscribe_by_mail(sender: MailSender, org_id: str) -> str:
    """Where there is no page for it, a mail to the sender, which a person has to read."""
    return f"mailto:{quote(sender.address, safe='@')}?subject={quote(f'unsubscribe {org_id}')}"


def _subject(text: str) -> Header:
    """Encoded where it is not plain, and where it would look as if it were encoded."""
    if not text.isprintable():
        raise ValueError("a subject is one line that can be printed")
    plain = text.isascii() and "=?" not in text
    return Header(text, "us-ascii" if plain else "utf-8", header_name="Subject")


def _part(text: str, kind: str) -> MIMEText:
    charset = Charset("utf-8")
    charset.body_encoding = QP
    return MIMEText(text, kind, charset)  # type: ignore[arg-type]  # it takes more than its stub says
