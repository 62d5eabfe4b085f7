"""Receivers of e-mail in PostgreSQL."""

from typing import cast

from langlauf.domain.instant import after
from langlauf.domain.mail_rules import MailAdmission, Mark, Refusal
from langlauf.store.postgres.links import Desk
from langlauf.store.postgres.texts import holdable


class PostgresMail(Desk):
    """Receivers of e-mail."""

    async def add_mark(self, org_id: str, address: str, mark: Mark) -> bool:
        return cast("bool", await self._links.call("add_mail_mark", self._at(), org_id, address, mark))

    async def remove_mark(self, org_id: str, address: str, mark: Mark) -> bool:
        if not holdable(address):
            return False
        return cast("bool", await self._links.call("remove_mail_mark", org_id, address, mark))

    async def admit(self, wish: MailAdmission) -> Refusal | None:
        said = await self._links.call(
            "admit_mail",
            self._at(),
            wish.org_id,
            wish.notification_id,
            wish.attempt,
            wish.address,
            wish.counted,
            wish.only_listed,
            wish.org_rate.quota,
            after(0, wish.org_rate.window),
            wish.address_rate.quota,
            after(0, wish.address_rate.window),
        )
        return cast("Refusal | None", said)
