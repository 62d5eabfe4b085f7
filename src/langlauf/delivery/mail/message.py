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

from langlauf.domain.instant import Instant, to_datetime
from langlauf.domain.mail import Letter, Sender

_POLICY = compat32.clone(linesep="\r\n")


def mail_bytes(letter: Letter, *, sender: Sender, to: str, message_id: str, now: Instant) -> bytes:
    """The mail with both forms of its text; all of it is ASCII, so that any server can pass it on."""
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
    return mail.as_bytes(policy=_POLICY)


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
