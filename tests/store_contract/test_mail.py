"""Receivers of e-mail: marks of an org, and mails that are let out or kept back, counted once."""

from typing import Any

import msgspec

from langlauf.domain.access import Rate
from langlauf.domain.mail import MailAdmission, MailMark
from langlauf.store.protocol import Store
from tests.store_contract.conftest import Harness
from tests.store_contract.test_deliveries import HOOK, MAIL, completed, request
from tests.support.stores import SetClock
from tests.support.submissions import ORG

WHO = "who@mail.example"
MANY = Rate(1_000, 3_600)


def wish(message: str, **values: Any) -> MailAdmission:
    usual = {"org_id": ORG, "attempt": 1, "address": WHO, "counted": True, "only_listed": False}
    rates = {"org_rate": MANY, "address_rate": MANY}
    return MailAdmission(**{**usual, **rates, "notification_id": message, **values})


def test_marks_are_the_orgs_own(harness: Harness) -> None:
    """Made once, read by their org alone, taken away once."""

    async def body(store: Store, clock: SetClock) -> None:
        made = clock.now()
        assert await store.mail.add_mark(ORG, WHO, "allowed")
        clock.pass_(5)
        assert not await store.mail.add_mark(ORG, WHO, "allowed")
        assert await store.mail.add_mark(ORG, WHO, "unsubscribed")
        assert await store.mail.add_mark(ORG, "a@mail.example", "allowed")
        assert await store.tenant(ORG).mail_marks() == [
            MailMark(ORG, "a@mail.example", "allowed", clock.now()),
            MailMark(ORG, WHO, "allowed", made),
            MailMark(ORG, WHO, "unsubscribed", clock.now()),
        ]
        assert [one.mark for one in await store.tenant(ORG).mail_marks(WHO)] == ["allowed", "unsubscribed"]
        assert await store.tenant("stranger").mail_marks() == []
        assert not await store.mail.remove_mark("stranger", WHO, "allowed")
        assert await store.mail.remove_mark(ORG, WHO, "allowed")
        assert not await store.mail.remove_mark(ORG, WHO, "allowed")
        assert [one.mark for one in await store.tenant(ORG).mail_marks(WHO)] == ["unsubscribed"]

    harness.run(body)


def test_who_unsubscribed_gets_no_more_mail_of_that_org(harness: Harness) -> None:
    """Not even a further try of a mail that was let out before; other orgs are not concerned."""

    async def body(store: Store, _: SetClock) -> None:
        assert await store.mail.admit(wish("a")) is None
        await store.mail.add_mark(ORG, WHO, "unsubscribed")
        assert await store.mail.admit(wish("b")) == "unsubscribed"
        assert await store.mail.admit(wish("a", attempt=2, counted=False)) == "unsubscribed"
        assert await store.mail.admit(wish("c", org_id="stranger")) is None

    harness.run(body)


def test_where_only_listed_ones_are_written_to_others_are_not(harness: Harness) -> None:
    async def body(store: Store, _: SetClock) -> None:
        assert await store.mail.admit(wish("a", only_listed=True)) == "unlisted"
        await store.mail.add_mark("stranger", WHO, "allowed")
        assert await store.mail.admit(wish("a", only_listed=True)) == "unlisted"
        await store.mail.add_mark(ORG, WHO, "allowed")
        assert await store.mail.admit(wish("a", only_listed=True)) is None

    harness.run(body)


def test_no_more_mails_go_out_than_the_rates_allow(harness: Harness) -> None:
    """Counted for the org and for each of its addresses; what is kept back is not counted, and time gives it back."""

    async def body(store: Store, clock: SetClock) -> None:
        rates = {"org_rate": Rate(3, 3_600), "address_rate": Rate(2, 60)}
        said = [await store.mail.admit(wish(name, **rates)) for name in "abc"]
        assert said == [None, None, "address_rate"]
        other = {**rates, "address": "other@mail.example"}
        assert [await store.mail.admit(wish(name, **other)) for name in "de"] == [None, "org_rate"]
        assert await store.mail.admit(wish("f", **rates, org_id="stranger")) is None
        clock.pass_(60)
        assert await store.mail.admit(wish("c", **rates)) == "org_rate"
        clock.pass_(3_540)
        assert await store.mail.admit(wish("c", **rates)) is None

    harness.run(body)


def test_one_attempt_is_counted_once(harness: Harness) -> None:
    """Also where the answer was lost and it asks again; further tries of the mail do not count, a replay does."""

    async def body(store: Store, _: SetClock) -> None:
        two = {"address_rate": Rate(2, 60)}
        assert [await store.mail.admit(wish("a", **two)) for _ in range(3)] == [None] * 3
        assert await store.mail.admit(wish("a", attempt=2, counted=False, **two)) is None
        assert await store.mail.admit(wish("a", attempt=3, **two)) is None
        assert await store.mail.admit(wish("a", attempt=4, **two)) == "address_rate"
        assert await store.mail.admit(wish("a", attempt=3, **two)) is None

    harness.run(body)


def test_mail_can_be_left_to_others(harness: Harness) -> None:
    """A claim without mail takes the rest, and leaves the mail as it is for the next one."""

    async def body(store: Store, clock: SetClock) -> None:
        await completed(store, clock, subscriptions=(HOOK, MAIL))
        left = await store.deliveries.claim(msgspec.structs.replace(request(), with_mail=False))
        assert [one.channel for one in left] == ["webhook"]
        [mail] = await store.deliveries.claim(request())
        assert (mail.channel, mail.attempt) == ("email", 1)

    harness.run(body)
