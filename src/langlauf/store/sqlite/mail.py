"""Receivers of e-mail in SQLite."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec

from langlauf.domain.instant import after
from langlauf.domain.mail_rules import MailAdmission, Mark, Refusal, refused_by
from langlauf.store.sqlite.transaction import Transaction


class ChangeMark(msgspec.Struct, frozen=True):
    """A mark to make, or to take away."""

    org_id: str
    address: str
    mark: Mark
    wanted: bool


def change_mark(tx: Transaction, wish: ChangeMark) -> bool:
    """Tells whether something changed."""
    ids = {"org_id": wish.org_id, "address": wish.address, "mark": wish.mark}
    if wish.wanted:
        return bool(tx.run("add_mail_mark", **ids, now=tx.now))
    return bool(tx.run("remove_mail_mark", **ids))


def admit(tx: Transaction, wish: MailAdmission) -> Refusal | None:
    """Counts a mail where it may go out."""
    found = tx.rows("read_mail_marks", org_id=wish.org_id, address=wish.address)
    refusal = refused_by([mark for _, _, mark, _ in found], only_listed=wish.only_listed)
    if refusal is not None or not wish.counted:
        return refusal
    attempt = {"org_id": wish.org_id, "notification_id": wish.notification_id, "attempt": wish.attempt}
    longest = max(wish.org_rate.window, wish.address_rate.window)
    tx.run("forget_mail_admissions", org_id=wish.org_id, before=after(tx.now, -longest))
    to_address = {"address": wish.address, "address_since": after(tx.now, -wish.address_rate.window)}
    admitted = tx.run(
        "admit_mail",
        **attempt,
        **to_address,
        now=tx.now,
        org_since=after(tx.now, -wish.org_rate.window),
        org_quota=wish.org_rate.quota,
        address_quota=wish.address_rate.quota,
    )
    if admitted or tx.one("mail_admitted", **attempt):
        return None
    [(sent,)] = tx.rows("mails_to_address", org_id=wish.org_id, **to_address)
    return "address_rate" if sent >= wish.address_rate.quota else "org_rate"


HANDLERS: dict[type, Callable[[Transaction, Any], Any]] = {ChangeMark: change_mark, MailAdmission: admit}


class SqliteMail:
    """Receivers of e-mail, over the connections of a store."""

    def __init__(self, write: Callable[[Any], Awaitable[Any]]) -> None:
        self._write = write

    async def add_mark(self, org_id: str, address: str, mark: Mark) -> bool:
        return cast("bool", await self._write(ChangeMark(org_id, address, mark, wanted=True)))

    async def remove_mark(self, org_id: str, address: str, mark: Mark) -> bool:
        return cast("bool", await self._write(ChangeMark(org_id, address, mark, wanted=False)))

    async def admit(self, wish: MailAdmission) -> Refusal | None:
        return cast("Refusal | None", await self._write(wish))
