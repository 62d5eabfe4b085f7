"""The channel of mail: a message of the outbox is written as a letter, addressed, and handed to the mail server."""

import logging
import re
from collections.abc import Callable

from langlauf.delivery.mail.ending import ending_of
from langlauf.delivery.mail.message import mail_bytes, unsubscribe_by_mail
from langlauf.delivery.mail.smtp import Answer, send
from langlauf.domain.delivery import MAIL_SUBJECTS, Delivery, subject_of
from langlauf.domain.mail import Email, JobEnding, MailSender, MailServer, message_id
from langlauf.domain.mail_address import read_mail_address
from langlauf.domain.mail_rules import (
    MAIL_REFUSALS,
    MailAdmission,
    MailRefusal,
    MailRules,
    domain_allowed,
    normalized_address,
)
from langlauf.domain.sending import DeliveryOutcome
from langlauf.service.mail_receivers import MailReceivers
from langlauf.store.protocol import Store
from langlauf.telemetry.log import LogEvent, log_event

#: Writes the letter of a message, from what is known of its job, with the link that unsubscribes where there is one.
Write = Callable[[Delivery, JobEnding, str | None], Email]
#: How long the mail of an org is left alone where no mail at all gets through: somebody has to look at the settings.
_PAUSE_SECONDS = 300.0
_RECEIVER = "[receiver]"


class Mails:
    """Sends mail from one address through one server."""

    def __init__(
        self,
        store: Store,
        *,
        write: Write,
        receivers: MailReceivers,
        rules: MailRules,
        server: MailServer,
        sender: MailSender,
        seconds: float,
    ) -> None:
        self._store = store
        self._write = write
        self._receivers = receivers
        self._rules = rules
        self._server = server
        self._sender = sender
        self._seconds = seconds

    async def send(self, delivery: Delivery) -> DeliveryOutcome:
        """Sends it once; whatever goes wrong is an outcome."""
        try:
            to = read_mail_address(delivery.target)
        except ValueError as error:
            return DeliveryOutcome(verdict="never", error=f"the address {error}")
        if subject_of(delivery.template_key) not in MAIL_SUBJECTS:
            return DeliveryOutcome(verdict="never", error=f"there is no letter for {delivery.template_key}")
        refusal = await self._refusal(delivery, to)
        if refusal is not None:
            return DeliveryOutcome(verdict="suppressed", error=MAIL_REFUSALS[refusal])
        link = await self._receivers.link(delivery.org_id, to)
        mail = mail_bytes(
            self._write(delivery, await ending_of(self._store, delivery), link),
            sender=self._sender,
            to=to,
            message_id=message_id(delivery.notification_id, self._sender),
            now=self._store.clock.now(),
            unsubscribe=link or unsubscribe_by_mail(self._sender, delivery.org_id),
        )
        answer = await send(self._server, self._sender, to, mail, seconds=self._seconds)
        return self._outcome(answer, re.sub(re.escape(to), _RECEIVER, answer.said, flags=re.IGNORECASE))

    async def _refusal(self, delivery: Delivery, to: str) -> MailRefusal | None:
        """Why this mail must not go out. A further try of one that was let out before is not counted again."""
        if not domain_allowed(to, self._rules.domains):
            return "domain"
        return await self._store.mail.admit(
            MailAdmission(
                org_id=delivery.org_id,
                notification_id=delivery.notification_id,
                attempt=delivery.attempt,
                address=normalized_address(to),
                counted=delivery.try_number == 1,
                only_listed=self._rules.only_listed,
                org_rate=self._rules.org_rate,
                address_rate=self._rules.address_rate,
            )
        )

    def _outcome(self, answer: Answer, said: str) -> DeliveryOutcome:
        """What the server's answer means. Whom it is about does not stand in it: it is also logged."""
        if answer.verdict == "taken":
            return DeliveryOutcome(verdict="sent", status_code=answer.code, reply=said)
        error = said if answer.code is None else f"the mail server answered {answer.code}: {said}"
        if answer.verdict == "never":
            return DeliveryOutcome(verdict="never", status_code=answer.code, reply=said, error=error)
        patience = None
        if answer.verdict == "settings":
            log_event(LogEvent.MAIL_MISCONFIGURED, logging.ERROR, server=self._server.shown, reason=error)
            patience = _PAUSE_SECONDS
        return DeliveryOutcome(
            verdict="later",
            status_code=answer.code,
            reply=said,
            error=error,
            retry_after=patience,
            lane_failed=answer.everybody,
        )
