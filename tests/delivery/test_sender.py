"""The sender as a part of a server: how it starts, pauses, stops and gets by without a store."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from langlauf.background import DutyRecorder
from langlauf.clock import new_id
from langlauf.delivery import sender as sending_room
from langlauf.delivery.sender import Channel, Sender, UnconfiguredChannel
from langlauf.domain.delivery import FINAL_SUBJECTS, Delivery, DeliveryFilter, Notification, WebhookEndpoint
from langlauf.domain.delivery_outcome import DeliveryOutcome
from langlauf.domain.errors import StoreUnavailable
from langlauf.domain.health import MAIL_EXPECTED_SECONDS
from langlauf.hints import Hints
from langlauf.settings import load_settings
from langlauf.store.sqlite.connection import MEMORY
from langlauf.store.sqlite.driver import SqliteStore
from langlauf.telemetry.log import EVENT_COUNTS, LogEvent
from tests.delivery.rig import rig
from tests.support.outbox import HOOK, MAIL
from tests.support.receiver import answer, hang, in_turn, receiving
from tests.support.stores import JobFactory, SetClock, query

#: Seconds to wait for what will come, on a machine however busy.
PATIENCE = 60.0


def test_on_postgresql_as_well(tmp_path: Path, database: str) -> None:
    with rig(tmp_path, LANGLAUF_STORE=database) as sending, receiving() as receiver:
        endpoint = sending.endpoint(receiver.url())
        receiver.manners["/hook"] = in_turn(answer(500), answer(200))
        sending.run_job()
        first, second = receiver.wait_for(2)
        [message] = sending.settled()
        secret = sending.secret(endpoint)
        assert first.verify(secret) == second.verify(secret)
    assert (message.delivery_status, message.attempt_count) == ("sent", 2)
    assert {first.message_id, second.message_id} == {message.notification_id}


def test_one_that_fails_again_and_again_is_left_alone(tmp_path: Path) -> None:
    with rig(tmp_path, LANGLAUF_WEBHOOK_SCHEDULE="0.1,0.1") as sending, receiving() as receiver:
        receiver.manners["/hook"] = answer(500)
        endpoint = sending.endpoint(receiver.url())
        for _ in range(5):
            sending.run_job()

        def paused() -> bool:
            [known] = sending.ask(lambda store: store.tenant(endpoint.org_id).endpoints())
            return known.paused_until is not None

        sending.until(paused)
        # A message of another org is sent twice, a tenth of a second apart: what was due meanwhile was passed over.
        receiver.manners["/other"] = in_turn(answer(500), answer(200))
        sending.endpoint(receiver.url("/other"), org="other")
        sending.run_job("other")
        receiver.wait_for(2, "/other")
        assert 5 <= len(receiver.of("/hook")) <= 6, "two were on their way when the fifth failed"
        assert sending.ask(lambda store: store.deliveries.figures()).paused_lanes == 1


def test_a_webhook_to_this_very_server_is_not_sent(tmp_path: Path) -> None:
    with receiving() as receiver:
        settings = {"LANGLAUF_PUBLIC_URL": receiver.url("/prefix"), "LANGLAUF_WEBHOOK_SCHEDULE": "0.1"}
        with rig(tmp_path, **settings) as sending:
            sending.endpoint(receiver.url("/analyze"))
            sending.run_job()
            [message] = sending.settled()
        assert receiver.connections == 0
    assert message.delivery_status == "failed"
    assert "this server's own" in (message.last_error or "")


def test_a_stop_does_not_wait_for_a_receiver_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is let go; after the start, when its claim is over, it arrives under the same id."""
    monkeypatch.setattr(sending_room, "_GRACE_SECONDS", 0.1)
    with receiving() as receiver:
        receiver.manners["/hook"] = in_turn(hang, answer(200))
        with rig(tmp_path, LANGLAUF_WEBHOOK_SECONDS="600") as sending:
            sending.endpoint(receiver.url())
            sending.run_job()
            receiver.wait_for(1)
        query(tmp_path / "store.db", "UPDATE notifications SET claimed_until = 1, scheduled_at = 1")  # it has passed
        with rig(tmp_path) as sending:
            first, second = receiver.wait_for(2)
            [message] = sending.settled()
            [attempt] = sending.attempts(message)
    assert attempt.attempt == 2, "it did not wait for the end of the first one"
    assert first.message_id == second.message_id == message.notification_id
    assert (message.delivery_status, message.attempt_count) == ("sent", 2)


class Kept:
    """A way out that keeps what it is given."""

    def __init__(self) -> None:
        self.sent: list[Delivery] = []

    async def send(self, delivery: Delivery) -> DeliveryOutcome:
        self.sent.append(delivery)
        return DeliveryOutcome(verdict="sent")


class Broken:
    """A way out with a fault of its own."""

    async def send(self, delivery: Delivery) -> DeliveryOutcome:
        raise KeyError(delivery.job_id)


class Flaky:
    """A store that is away for the next few questions, and its outbox with it."""

    def __init__(self, store: SqliteStore, away: int) -> None:
        self._store = store
        self.away = away

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @property
    def deliveries(self) -> "Flaky":
        return self

    async def claim(self, request: Any) -> Any:
        return await self._ask("claim", request)

    async def finish(self, end: Any) -> Any:
        return await self._ask("finish", end)

    async def _ask(self, verb: str, value: Any) -> Any:
        if self.away:
            self.away -= 1
            raise StoreUnavailable("the disk is gone")
        return await getattr(self._store.deliveries, verb)(value)


@asynccontextmanager
async def _outbox() -> AsyncIterator[SqliteStore]:
    """A store with a webhook and a mail to send."""
    clock = SetClock()
    store = await SqliteStore.open(MEMORY, hints=Hints(), clock=clock)
    try:
        make = JobFactory(store, clock)
        await make.finish(await make.claim(await make.queued(subscriptions=(HOOK, MAIL))), 1)
        yield store
    finally:
        await store.close()


async def _messages(store: SqliteStore) -> list[Notification]:
    return await store.tenant(JobFactory(store, SetClock()).org_id).deliveries(DeliveryFilter())


async def _sent_by(store: Any, channels: dict[Any, Channel], done: Any, schedule: Sequence[str] = ("60",)) -> None:
    """Lets a sender work until that is so."""
    settings = load_settings({"LANGLAUF_WEBHOOK_SCHEDULE": ",".join(schedule)})
    part = Sender(store, settings, Hints(), store.clock, channels)
    alive = [part.alive]
    await part.start()
    alive.append(part.alive)
    async with asyncio.timeout(PATIENCE):
        while not await done():  # noqa: ASYNC110 - the store does not tell of its deliveries
            await asyncio.sleep(0.01)
    await part.stop()
    assert [*alive, part.alive] == [False, True, False]


def test_an_outage_of_the_store_is_logged_once_and_waited_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending_room, "_LOOK_SECONDS", 0.01)

    async def main() -> None:
        async with _outbox() as store:
            kept, flaky = Kept(), Flaky(store, away=4)
            told = EVENT_COUNTS[LogEvent.STORE_UNAVAILABLE]

            async def done() -> bool:
                return all(one.delivery_status == "sent" for one in await _messages(store))

            await _sent_by(flaky, {"webhook": kept, "email": kept}, done)
            assert EVENT_COUNTS[LogEvent.STORE_UNAVAILABLE] == told + 1
            assert {one.channel for one in kept.sent} == {"webhook", "email"}

    asyncio.run(main())


def test_a_missing_or_broken_channel_does_not_block_others() -> None:
    async def main() -> None:
        async with _outbox() as store:

            async def done() -> bool:
                return all(one.attempt_count and one.claimed_until is None for one in await _messages(store))

            await _sent_by(store, {"webhook": Broken(), "email": UnconfiguredChannel("no mail server is set up")}, done)
            found = {one.channel: (one.delivery_status, one.last_error) for one in await _messages(store)}
            assert found == {
                "webhook": ("pending", "the message could not be sent: see the log of the server"),
                "email": ("suppressed", "no mail server is set up"),
            }

    asyncio.run(main())


def test_mail_is_left_to_a_process_that_has_a_mail_server() -> None:
    """While one is there, or was a moment ago, a process without a mail server sends the rest and leaves the mail."""

    async def main() -> None:
        async with _outbox() as store:
            silent, kept = UnconfiguredChannel("no mail server is set up"), Kept()

            async def by_channel() -> dict[str, str]:
                return {one.channel: one.delivery_status for one in await _messages(store)}

            async def hook_sent() -> bool:
                return (await by_channel())["webhook"] == "sent"

            async def mail_settled() -> bool:
                return (await by_channel())["email"] != "pending"

            recorder = DutyRecorder(store.duties.record_success)
            with_server = Sender(
                store, load_settings({}), Hints(), store.clock, {"email": Kept()}, record=recorder.record
            )
            await with_server._record_success(with_server.name)
            await _sent_by(store, {"webhook": kept, "email": silent}, hook_sent)
            assert await by_channel() == {"webhook": "sent", "email": "pending"}
            store.clock.pass_(MAIL_EXPECTED_SECONDS)  # type: ignore[attr-defined]  # the clock of the test
            await _sent_by(store, {"webhook": kept, "email": silent}, mail_settled)
            assert await by_channel() == {"webhook": "sent", "email": "suppressed"}

    asyncio.run(main())


class Failing:
    """A way out that leads nowhere."""

    async def send(self, delivery: Delivery) -> DeliveryOutcome:  # noqa: ARG002
        return DeliveryOutcome(verdict="later", error="no connection", lane_failed=True)


def test_an_endpoint_that_nothing_reached_for_days_is_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending_room, "_LOOK_SECONDS", 0.01)

    async def main() -> None:
        clock = SetClock()
        store = await SqliteStore.open(MEMORY, hints=Hints(), clock=clock)
        make = JobFactory(store, clock)
        new = WebhookEndpoint(
            org_id=make.org_id,
            endpoint_id=new_id(),
            url="https://gone.example/",
            name="gone",
            subjects=FINAL_SUBJECTS,
            created_at=clock.now(),
        )
        assert await store.deliveries.add_endpoint(new) is not None
        await make.finish(await make.claim(await make.queued()), 1)

        async def endpoint() -> WebhookEndpoint:
            [known] = await store.tenant(make.org_id).endpoints()
            return known

        async def disabled() -> bool:
            clock.pass_(12 * 3_600)
            return (await endpoint()).disabled_at is not None

        await _sent_by(store, {"webhook": Failing()}, disabled, schedule=["60"] * 50)
        assert "nothing could be delivered for" in ((await endpoint()).disabled_reason or "")
        [message] = await _messages(store)
        assert message.delivery_status == "failed"
        await store.close()

    asyncio.run(main())
