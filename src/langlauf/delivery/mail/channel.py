"""The channel of mail: a message of the outbox is written as a letter, addressed, and handed to the mail server."""

import logging
import re
from collections.abc import Callable

from langlauf.delivery.mail.ending import ending_of
from langlauf.delivery.mail.message import mail_bytes
from langlauf.delivery.mail.smtp import Answer, send
from langlauf.domain.delivery import MAIL_SUBJECTS, Delivery, subject_of
from langlauf.domain.mail import Ending, Letter, MailServer, Sender, message_id
from langlauf.domain.mail_address import read_mail_address
from langlauf.domain.sending import Outcome
from langlauf.store.protocol import Store
from langlauf.telemetry import Fact, tell

#: Writes the letter of a message, from what is known of its job.
Write = Callable[[Delivery, Ending], Letter]
#: How long the mail of an org is left alone where no mail at all gets through: somebody has to look at the settings.
_PAUSE_SECONDS = 300.0
_RECEIVER = "[receiver]"


class Mails:
    """Sends mail from one address through one server."""

    def __init__(self, store: Store, *, write: Write, server: MailServer, sender: Sender, seconds: float) -> None:
        self._store = store
        self._write = write
        self._server = server
        self._sender = sender
        self._seconds = seconds

    async def send(self, delivery: Delivery) -> Outcome:
        """Sends it once; whatever goes wrong is an outcome."""
        try:
            to = read_mail_address(delivery.target)
        except ValueError as error:
            return Outcome(verdict="never", error=f"the address {error}")
        if subject_of(delivery.template_key) not in MAIL_SUBJECTS:
            return Outcome(verdict="never", error=f"there is no letter for {delivery.template_key}")
        mail = mail_bytes(
            self._write(delivery, await ending_of(self._store, delivery)),
            sender=self._sender,
            to=to,
            message_id=message_id(delivery.notification_id, self._sender),
            now=self._store.clock.now(),
        )
        answer = await send(self._server, self._sender, to, mail, seconds=self._seconds)
        return self._outcome(answer, re.sub(re.escape(to), _RECEIVER, answer.said, flags=re.IGNORECASE))

    def _outcome(self, answer: Answer, said: str) -> Outcome:
        """What the server's answer means. Whom it is about does not stand in it: it is also logged."""
        if answer.verdict == "taken":
            return Outcome(verdict="sent", status_code=answer.code, reply=said)
        error = said if answer.code is None else f"the mail server answered {answer.code}: {said}"
        if answer.verdict == "never":
            return Outcome(verdict="never", status_code=answer.code, reply=said, error=error)
        patience = None
        if answer.verdict == "settings":
            tell(Fact.MAIL_MISCONFIGURED, logging.ERROR, server=self._server.shown, reason=error)
            patience = _PAUSE_SECONDS
        return Outcome(
            verdict="later",
            status_code=answer.code,
            reply=said,
            error=error,
            retry_after=patience,
            lane_failed=answer.everybody,
        )
