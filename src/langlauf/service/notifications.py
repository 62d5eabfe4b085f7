"""Notifications of ended jobs: what a submission asks for, who may receive mail, and the inbox of an org."""

import zlib
from collections.abc import Sequence

import msgspec

from langlauf.analysis.schema import InvalidInput
from langlauf.auth.caller import Caller
from langlauf.auth.credentials import SignedClaims
from langlauf.domain.delivery import MAIL_LANE, Subscription
from langlauf.domain.errors import WebhookUrlRefused
from langlauf.domain.instant import Instant
from langlauf.domain.mail import (
    MAIL_REFUSALS,
    AddressMark,
    MailMark,
    domain_allowed,
    normalized_address,
    read_mail_address,
)
from langlauf.domain.read_models import InboxPage, InboxRecord, MarkRead
from langlauf.domain.ssrf import allowed_networks
from langlauf.domain.webhook import read_webhook_url
from langlauf.service.read import reads_for
from langlauf.settings import Settings
from langlauf.store.protocol import Store

# -- options of a submission -------------------------------------------------------------------------------------------

_FIELD = "options.async_mode.notify"
_UNSIGNED = (
    "webhooks are signed, and there is no secret for this one: set LANGLAUF_WEBHOOK_SECRET, "
    "or add the address as an endpoint of the org (langlauf webhooks add)"
)


#: Lanes shared by all webhook addresses of an org's jobs, so that the sender checks a bounded number of them.
_JOB_LANES = 16


def _lane_of(origin: str) -> str:
    """Return the lane of a server; several servers may share one."""
    return f"job-{zlib.crc32(origin.encode()) % _JOB_LANES}"


class NotifyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where to send the end of a job."""

    #: a URL that is called
    webhook: str | None = None
    #: an e-mail address, and the language of the mail
    email: str | None = None
    language: str | None = None


class NotifyValidator:
    """Turns notify options into the subscriptions of a job."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings

    async def subscriptions(self, org_id: str, notify: NotifyOptions) -> tuple[Subscription, ...]:
        """Return the subscriptions; raise `InvalidInput` for a target that can never be delivered to."""
        made: list[Subscription] = []
        if notify.email is not None:
            made.append(await self.mail_subscription(org_id, notify.email, notify.language))
        if notify.webhook is not None:
            made.append(await self._webhook(org_id, notify.webhook))
        return tuple(made)

    async def mail_subscription(
        self, org_id: str, address: str, language: str | None, field: str = f"{_FIELD}.email"
    ) -> Subscription:
        """Return the subscription of an address; raise `InvalidInput` with `field` for one that can get no mail.

        Temporary refusals, and unsubscribed receivers, are found when the mail is sent.
        """
        try:
            target = read_mail_address(address)
        except ValueError as error:
            raise InvalidInput(field, f"email {error}", "mail") from None
        rules = self._settings.mail_rules
        if not domain_allowed(target, rules.domains):
            raise InvalidInput(field, f"email: {MAIL_REFUSALS['domain']}", "mail_domain")
        if rules.only_listed:
            known = await self._store.tenant(org_id).mail_marks(normalized_address(target))
            if all(one.mark != "allowed" for one in known):
                raise InvalidInput(field, f"email: {MAIL_REFUSALS['unlisted']}", "mail_unlisted")
        return Subscription(channel="email", target=target, lane=MAIL_LANE, language=language)

    async def _webhook(self, org_id: str, url: str) -> Subscription:
        try:
            target = read_webhook_url(
                url, allowed_networks(self._settings.webhook_allow, org_id), own=self._settings.public_url
            )
        except WebhookUrlRefused as error:
            raise InvalidInput(f"{_FIELD}.webhook", str(error), error.code, error.limit) from None
        if not self._settings.webhook_secret:
            known = await self._store.tenant(org_id).endpoints()
            if not any(endpoint.url == target.url for endpoint in known):
                raise InvalidInput(f"{_FIELD}.webhook", _UNSIGNED, "unsigned")
        return Subscription(channel="webhook", target=target.url, lane=_lane_of(target.origin))


# -- receivers of mail -------------------------------------------------------------------------------------------------
# The link is a signed claim about one address of one org: its receiver can use it without a key, and it never expires.

_UNSUBSCRIBE_PREFIX = "llu_"
_UNSUBSCRIBE_PURPOSE = "mail unsubscribe"


class MailReceiver(msgspec.Struct, frozen=True, array_like=True):
    """An address that an org writes to: the content of an unsubscribe link."""

    org_id: str
    address: str


class MailReceivers:
    """The allow list and the unsubscribed addresses of each org."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._base = (settings.public_url or "").rstrip("/")
        self._statements: SignedClaims[MailReceiver] | None = None

    async def marks(self, org_id: str) -> list[MailMark]:
        """Return the marks of the org: allowed and unsubscribed addresses."""
        return await self._store.tenant(org_id).mail_marks()

    async def mark(self, org_id: str, address: str, mark: AddressMark) -> bool:
        """Mark an address; False where it has that mark already."""
        return await self._store.mail.add_mark(org_id, _usable(address), mark)

    async def unmark(self, org_id: str, address: str, mark: AddressMark) -> bool:
        """Remove a mark; False where there is none."""
        return await self._store.mail.remove_mark(org_id, _usable(address), mark)

    async def unsubscribe(self, receiver: MailReceiver) -> None:
        """Stop mail to the address for this org. Repeating it changes nothing."""
        known = await self._store.tenant(receiver.org_id).mail_marks(receiver.address)
        if all(one.mark != "unsubscribed" for one in known):
            await self._store.mail.add_mark(receiver.org_id, receiver.address, "unsubscribed")

    async def link(self, org_id: str, address: str) -> str | None:
        """Return the link that unsubscribes an address; None where no public URL is set."""
        if not self._base:
            return None
        signed = await self._signed()
        return f"{self._base}/unsubscribe/{signed.write(MailReceiver(org_id, normalized_address(address)))}"

    async def receiver(self, token: str) -> MailReceiver | None:
        """Return the receiver of an unsubscribe token; None where it was not signed here."""
        return (await self._signed()).read(token)

    async def _signed(self) -> SignedClaims[MailReceiver]:
        if self._statements is None:
            self._statements = SignedClaims(
                MailReceiver, _UNSUBSCRIBE_PREFIX, await self._store.access.signing_secret(_UNSUBSCRIBE_PURPOSE)
            )
        return self._statements


def _usable(address: str) -> str:
    try:
        return normalized_address(read_mail_address(address))
    except ValueError as error:
        raise InvalidInput("address", f"address {error}") from None


# -- inbox -------------------------------------------------------------------------------------------------------------

#: To find unread messages, one page reads at most this many batches of this size.
_INBOX_STEP = 200
_MOST_INBOX_STEPS = 5


class Inbox:
    """Lists messages, and marks them as read for the whole org."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def page(self, caller: Caller, *, before: tuple[Instant, str] | None, limit: int, unread: bool) -> InboxPage:
        """Return the next messages, newest first. A page of unread ones may be short or empty and not the last."""
        reads = reads_for(self._store, caller)
        if not unread:
            return await reads.inbox(before=before, limit=limit)
        found: list[InboxRecord] = []
        for _ in range(_MOST_INBOX_STEPS):
            page = await reads.inbox(before=before, limit=_INBOX_STEP)
            for message in page.messages:
                before = (message.notification.created_at, message.notification.notification_id)
                if message.unread:
                    found.append(message)
                elif message.notification.read_at is None:  # all messages up to here were marked together
                    return InboxPage(found, None)
                if len(found) == limit:
                    return InboxPage(found, before)
            if page.after is None:
                return InboxPage(found, None)
        return InboxPage(found, before)

    async def read_some(self, caller: Caller, ids: Sequence[str], until: Instant | None) -> bool:
        """Mark these messages, and all up to an instant; return whether any was unread."""
        changed = [await self.read_one(caller, one) for one in dict.fromkeys(ids)]
        return (until is not None and await self.read_all(caller, until)) or any(changed)

    async def read_one(self, caller: Caller, notification_id: str) -> bool:
        """Mark one message; False where it was read already, or where the org has no such message."""
        return await self._mark(caller, MarkRead(org_id=caller.org_id, notification_id=notification_id))

    async def read_of_job(self, caller: Caller, job_id: str) -> bool:
        """Mark the messages about a job; return whether any had not been marked by itself."""
        messages = await reads_for(self._store, caller).notifications(job_id, channel="in_app", limit=_INBOX_STEP)
        changed = [await self.read_one(caller, one.notification_id) for one in messages if one.read_at is None]
        return any(changed)

    async def read_all(self, caller: Caller, until: Instant) -> bool:
        """Mark all messages up to an instant."""
        return await self._mark(caller, MarkRead(org_id=caller.org_id, until=until))

    async def _mark(self, caller: Caller, marking: MarkRead) -> bool:
        # A token for one job sees no inbox, and so marks nothing.
        if caller.grant is not None and caller.grant.job_id is not None:
            return False
        return await self._store.mark_read(marking)
