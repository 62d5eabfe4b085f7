"""Where the messages about a job go, as far as everybody who may read the job should know."""

from urllib.parse import urlsplit

from langlauf.domain.mail_address import shown_mail_address
from langlauf.domain.notification import Notification


def place_of(message: Notification) -> str:
    """The server that is called, without the rest of its address, or a masked e-mail address.

    An address can carry a secret, and a mailbox is a person's. Which endpoint of the org it was is for its admins.
    """
    if message.target is None:
        return ""
    if message.channel == "email":
        return shown_mail_address(message.target)
    whole = urlsplit(message.target)
    return f"{whole.scheme}://{whole.netloc}"
