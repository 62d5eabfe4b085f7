"""One message of the outbox as a mail: written, addressed, handed to the mail server."""

import logging
from collections.abc import Awaitable, Callable

from langlauf.clock import Clock
from langlauf.delivery.mail.message import mail_bytes
from langlauf.delivery.mail.smtp import Answer, send
from langlauf.domain.delivery import MAIL_SUBJECTS, Delivery, subject_of
from langlauf.domain.mail import Letter, message_id
from langlauf.domain.mail_address import read_mail_address
from langlauf.settings import Settings
from langlauf.telemetry import Fact, tell

#: Writes the letter of a message.
Write = Callable[[Delivery], Awaitable[Letter]]


class MailHandler:
    """Sends mail where the settings say how; without them nothing is tried and nothing has failed."""

    def __init__(self, write: Write, settings: Settings, clock: Clock) -> None:
        self._write = write
        self._server = settings.smtp
        self._sender = settings.mail_from
        self._seconds = settings.webhook_seconds
        self._clock = clock

    async def send(self, delivery: Delivery) -> Answer | None:
        """What became of the mail; None where no mail is sent here."""
        if self._server is None or self._sender is None:
            return None
        try:
            to = read_mail_address(delivery.target)
        except ValueError as error:
            return Answer("never", None, f"the address {error}")
        if subject_of(delivery.template_key) not in MAIL_SUBJECTS:
            return Answer("never", None, f"there is no letter for {delivery.template_key}")
        mail = mail_bytes(
            await self._write(delivery),
            sender=self._sender,
            to=to,
            message_id=message_id(delivery.notification_id, self._sender),
            now=self._clock.now(),
        )
        answer = await send(self._server, self._sender, to, mail, seconds=self._seconds)
        if answer.verdict == "settings":
            tell(Fact.MAIL_MISCONFIGURED, logging.ERROR, server=self._server.shown, code=answer.code, said=answer.said)
        return answer
