"""Receivers of mail: the allow list of an org, unsubscribed addresses, and the unsubscribe link.

The link is a signed claim about one address of one org: its receiver can use it without a key, and it never expires.
"""

import msgspec

from langlauf.analysis.schema import InvalidInput
from langlauf.auth.tokens import SignedClaims
from langlauf.domain.mail import AddressMark, MailMark, normalized_address, read_mail_address
from langlauf.settings import Settings
from langlauf.store.protocol import Store

_PREFIX = "llu_"
_PURPOSE = "mail unsubscribe"


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
            self._statements = SignedClaims(MailReceiver, _PREFIX, await self._store.access.signing_secret(_PURPOSE))
        return self._statements


def _usable(address: str) -> str:
    try:
        return normalized_address(read_mail_address(address))
    except ValueError as error:
        raise InvalidInput("address", f"address {error}") from None
