"""A letter becomes the bytes that go over the wire."""

from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from langlauf.domain.instant import Instant, to_datetime
from langlauf.domain.mail import Letter, Sender

#: Headers that are longer than a line are put into several; nothing of ours is, but a long name or subject may be.
_POLICY = SMTP.clone(cte_type="7bit")
_ENCODING = "quoted-printable"


def mail_bytes(letter: Letter, *, sender: Sender, to: str, message_id: str, now: Instant) -> bytes:
    """The mail with both forms of its text. A header that would carry another one raises `ValueError`."""
    mail = EmailMessage(policy=_POLICY)
    mail["From"] = Address(display_name=sender.name, addr_spec=sender.address)
    mail["To"] = Address(addr_spec=to)
    mail["Subject"] = letter.subject
    mail["Date"] = format_datetime(to_datetime(now))
    mail["Message-ID"] = message_id
    # Nobody's absence is to be answered to, and no list is to pass it on as a person's word.
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"
    mail.set_content(letter.text, cte=_ENCODING)
    mail.add_alternative(letter.html, subtype="html", cte=_ENCODING)
    mail["Content-Language"] = letter.language  # of the whole: what was set before would be the first part's
    return mail.as_bytes()
