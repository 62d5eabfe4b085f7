"""Receivers of e-mail in SQLite."""

from functools import partial

from langlauf.domain.instant import after
from langlauf.domain.mail import AddressMark, MailAdmission, MailRefusal, mail_refusal
from langlauf.store.sqlite.desk import Desk
from langlauf.store.sqlite.transaction import Transaction


def change_mark(tx: Transaction, org_id: str, address: str, mark: AddressMark, *, wanted: bool) -> bool:
    """Tells whether something changed."""
    ids = {"org_id": org_id, "address": address, "mark": mark}
    if wanted:
        return bool(tx.run("add_mail_mark", **ids, now=tx.now))
    return bool(tx.run("remove_mail_mark", **ids))


def admit(tx: Transaction, wish: MailAdmission) -> MailRefusal | None:
    """Counts a mail where it may go out."""
    found = tx.rows("read_mail_marks", org_id=wish.org_id, address=wish.address)
    refusal = mail_refusal([mark for _, _, mark, _ in found], only_listed=wish.only_listed)
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


class SqliteMail(Desk):
    """Receivers of e-mail, over the connections of a store."""

    async def add_mark(self, org_id: str, address: str, mark: AddressMark) -> bool:
        return await self._change(lambda tx: change_mark(tx, org_id, address, mark, wanted=True), org_id)

    async def remove_mark(self, org_id: str, address: str, mark: AddressMark) -> bool:
        return await self._change(lambda tx: change_mark(tx, org_id, address, mark, wanted=False), org_id)

    async def admit(self, wish: MailAdmission) -> MailRefusal | None:
        return await self._change(partial(admit, wish=wish), wish.org_id)
