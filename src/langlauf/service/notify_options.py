"""Webhook and e-mail notifications that a submission asks for, validated before anything is written."""

import zlib

import msgspec

from langlauf.analysis.schema import InvalidInput
from langlauf.domain.delivery import MAIL_LANE, Subscription
from langlauf.domain.errors import WebhookUrlRefused
from langlauf.domain.mail import MAIL_REFUSALS, domain_allowed, normalized_address, read_mail_address
from langlauf.domain.ssrf import allowed_networks
from langlauf.domain.webhook import read_webhook_url
from langlauf.settings import Settings
from langlauf.store.protocol import Store

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
