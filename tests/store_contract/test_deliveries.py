"""The outbox: it fills itself with every change, hands messages out fairly, and notes once what became of each."""

import asyncio
import itertools
from typing import Any

import msgspec

from langlauf.clock import new_id
from langlauf.domain.attempt import Partial
from langlauf.domain.delivery import (
    FINAL_SUBJECTS,
    MOST_ENDPOINTS,
    SUBJECTS,
    Delivery,
    DeliveryClaim,
    DeliveryEnd,
    DeliveryFilter,
    DeliveryReplay,
    EndpointChange,
    Notification,
    Subscription,
    WebhookEndpoint,
)
from langlauf.domain.outcome import Canceled, Completed, Failed
from langlauf.store.protocol import Store
from tests.store_contract.conftest import Harness
from tests.support.stores import SetClock
from tests.support.submissions import ORG, accept, cancel_request, claim, started

CLAIM_SECONDS = 30.0
HOOK = Subscription(channel="webhook", target="https://hook.example/a", lane="https://hook.example")
MAIL = Subscription(channel="email", target="who@mail.example", lane="mail", language="de")


def request(most: int = 10, most_of_lane: int = 2) -> DeliveryClaim:
    return DeliveryClaim(most=most, most_of_lane=most_of_lane, claim_seconds=CLAIM_SECONDS, cautious_after=3)


async def endpoint(store: Store, clock: SetClock, *, org: str = ORG, **values: Any) -> WebhookEndpoint:
    """An endpoint of an org; without an address, one like no other."""
    number = new_id()
    made = await store.deliveries.add_endpoint(
        WebhookEndpoint(
            org_id=org,
            endpoint_id=number,
            url=values.pop("url", f"https://{number}.example/hook"),
            name="a receiver",
            subjects=values.pop("subjects", FINAL_SUBJECTS),
            created_at=clock.now(),
        )
    )
    assert made is not None
    return made


def ended(one: Delivery, status: Any, **values: Any) -> DeliveryEnd:
    return DeliveryEnd(
        org_id=one.org_id,
        notification_id=one.notification_id,
        attempt=one.attempt,
        status=status,
        seconds=0.25,
        **values,
    )


async def completed(store: Store, clock: SetClock, **rules: Any) -> str:
    made = await started(store, clock, **rules)
    assert await store.record(made.lease, Completed(result_id=new_id(), payload="{}"))
    clock.pass_(0.001)
    return made.lease.job_id


async def outbox(store: Store, org: str = ORG) -> list[Notification]:
    """What goes out, the oldest first."""
    return list(reversed(await store.tenant(org).deliveries(DeliveryFilter(limit=200))))


def facts(message: Notification | Delivery) -> dict[str, Any]:
    found = msgspec.json.decode(message.payload_json)
    assert isinstance(found, dict)
    return found


def test_every_end_leaves_a_message_for_each_endpoint(harness: Harness) -> None:
    """Completed, failed and canceled, whoever writes the end; another org's endpoints hear nothing."""

    async def body(store: Store, clock: SetClock) -> None:
        mine = await endpoint(store, clock)
        await endpoint(store, clock, org="org-b")
        done = await completed(store, clock)
        broken = await started(store, clock)
        assert await store.record(broken.lease, Failed(code="internal", message="no", retryable=False))
        stopped = await started(store, clock)
        assert await store.record(stopped.lease, Canceled(by="worker", reason="enough"))
        unstarted = await accept(store, clock)
        await store.cancel(cancel_request(unstarted.job_id))
        found = await outbox(store)
        assert {one.job_id: one.template_key for one in found} == {
            done: "async.job.completed",
            broken.lease.job_id: "async.job.failed",
            stopped.lease.job_id: "async.job.canceled",
            unstarted.job_id: "async.job.canceled",
        }
        for one in found:
            view = await store.tenant(ORG).job(one.job_id)
            assert view is not None
            [*_, last] = await store.tenant(ORG).events(one.job_id, after=0, limit=100)
            assert (one.channel, one.delivery_status, one.endpoint_id) == ("webhook", "pending", mine.endpoint_id)
            assert one.dedupe_key == f"{one.job_id}:webhook:{one.template_key}:{mine.endpoint_id}"
            assert one.created_at == one.scheduled_at == last.occurred_at
            assert facts(one) == {
                "job_id": one.job_id,
                "status": view.job.status,
                "event_seq": last.event_seq,
                "event_id": last.event_id,
                "trace_id": last.trace_id,
                "result_id": view.job.result_id,
                "language": None,
            }
        assert await outbox(store, "org-b") == []

    harness.run(body)


def test_an_endpoint_hears_of_what_it_subscribed_to(harness: Harness) -> None:
    """Events that are not the end have their number in the key; two partials are two messages."""

    async def body(store: Store, clock: SetClock) -> None:
        await endpoint(store, clock, subjects=SUBJECTS)
        made = await started(store, clock)
        for number in (1, 2):
            assert await store.record(made.lease, Partial(result_id=f"p-{number}", payload="{}", percent=number))
        assert await store.record(made.lease, Failed(code="internal", message="no", retryable=False))
        found = await outbox(store)
        told = [(one.template_key.rpartition(".")[2], facts(one)["status"], facts(one)["result_id"]) for one in found]
        assert sorted(told) == sorted(
            [
                ("queued", "queued", None),
                ("started", "running", None),
                ("partial", "partial", "p-1"),
                ("partial", "partial", "p-2"),
                ("failed", "failed", "p-2"),
            ]
        )
        assert len({one.dedupe_key for one in found}) == len(found)
        for one in found:
            numbered = one.template_key != "async.job.failed"
            assert one.dedupe_key.endswith(f":{facts(one)['event_seq']}") == numbered

    harness.run(body)


def test_a_job_has_wishes_of_its_own(harness: Harness) -> None:
    """A web address hears of every end, an e-mail address of those that people are told of."""

    async def body(store: Store, clock: SetClock) -> None:
        done = await completed(store, clock, subscriptions=(HOOK, MAIL))
        other = await accept(store, clock, subscriptions=(HOOK, MAIL))
        await store.cancel(cancel_request(other.job_id))
        found = await outbox(store)
        assert sorted((one.dedupe_key, one.target, one.lane) for one in found) == sorted(
            [
                (f"{done}:webhook:async.job.completed:job", HOOK.target, HOOK.lane),
                (f"{done}:email:async.job.completed", MAIL.target, MAIL.lane),
                (f"{other.job_id}:webhook:async.job.canceled:job", HOOK.target, HOOK.lane),
            ]
        )
        assert [facts(one)["language"] for one in found if one.channel == "email"] == ["de"]

    harness.run(body)


def test_a_running_job_gets_a_receiver(harness: Harness) -> None:
    """The last address before the end gets the one mail; repeating it changes nothing, nor does another org."""

    async def body(store: Store, clock: SetClock) -> None:
        made = await started(store, clock, subscriptions=(HOOK,))
        job_id, first = made.lease.job_id, msgspec.structs.replace(MAIL, target="first@mail.example")
        for wanted in (first, MAIL, MAIL):
            assert await store.deliveries.subscribe(ORG, job_id, wanted) is True
        for org, job in (("org-b", job_id), (ORG, new_id()), (ORG, "no-job"), (ORG, "\0")):
            assert await store.deliveries.subscribe(org, job, first) is None
        assert await store.tenant(ORG).subscriptions(job_id) == (MAIL, HOOK)
        assert await store.record(made.lease, Completed(result_id=new_id(), payload="{}"))
        assert await store.deliveries.subscribe(ORG, job_id, first) is False
        assert await store.tenant(ORG).subscriptions(job_id) == (MAIL, HOOK)
        mails = [one for one in await outbox(store) if one.channel == "email"]
        assert [(one.target, facts(one)["language"]) for one in mails] == [(MAIL.target, "de")]

    harness.run(body)


def test_an_address_that_comes_with_the_end_is_kept_or_refused(harness: Harness) -> None:
    """Whichever is first: an address that was accepted gets its mail, and one that was refused gets none."""

    async def body(store: Store, clock: SetClock) -> None:
        made = [await started(store, clock) for _ in range(20)]
        ids = [one.lease.job_id for one in made]
        ends = (store.record(one.lease, Completed(result_id=new_id(), payload="{}")) for one in made)
        asked = (store.deliveries.subscribe(ORG, job_id, MAIL) for job_id in ids)
        pairs = itertools.chain.from_iterable(zip(ends, asked, strict=True))
        answers = (await asyncio.gather(*pairs))[1::2]
        mailed = {one.job_id for one in await outbox(store)}
        assert mailed == {job_id for job_id, kept in zip(ids, answers, strict=True) if kept}
        assert None not in answers

    harness.run(body)


def test_a_job_that_waits_gets_a_receiver(harness: Harness) -> None:
    """Also the first one of its store, whose end would otherwise look for none; a canceled job gets none."""

    async def body(store: Store, clock: SetClock) -> None:
        await completed(store, clock)
        waiting, stopped = await accept(store, clock), await accept(store, clock)
        await store.cancel(cancel_request(stopped.job_id))
        assert await store.deliveries.subscribe(ORG, stopped.job_id, MAIL) is False
        assert await store.deliveries.subscribe(ORG, waiting.job_id, MAIL) is True
        [claimed] = await claim(store)
        assert await store.record(claimed.lease, Completed(result_id=new_id(), payload="{}"))
        assert [(one.job_id, one.target) for one in await outbox(store)] == [(waiting.job_id, MAIL.target)]

    harness.run(body)


def test_an_address_that_is_an_endpoint_is_told_once(harness: Harness) -> None:
    """A job may name an address that hears of its end anyway; one that does not is told with the endpoint's secret."""

    async def body(store: Store, clock: SetClock) -> None:
        known = await endpoint(store, clock, url=HOOK.target)
        await completed(store, clock, subscriptions=(HOOK,))
        assert [one.endpoint_id for one in await outbox(store)] == [known.endpoint_id]
        change = EndpointChange(org_id=ORG, endpoint_id=known.endpoint_id, subjects=("queued",), rotate_seconds=60)
        assert await store.deliveries.change_endpoint(change) is not None
        await completed(store, clock, subscriptions=(HOOK,))
        taken = await store.deliveries.claim(request())
        own = next(one for one in taken if one.lane == HOOK.lane)
        assert (own.target, own.endpoint_id, own.version) == (HOOK.target, known.endpoint_id, 2)

    harness.run(body)


def test_a_message_is_claimed_by_one_and_settled_once(harness: Harness) -> None:
    """A claim that is over is made again with the next number; what the one before writes is refused."""

    async def body(store: Store, clock: SetClock) -> None:
        mine = await endpoint(store, clock)
        await completed(store, clock)
        [first] = await store.deliveries.claim(request())
        assert (first.attempt, first.try_number, first.target) == (1, 1, mine.url)
        assert (first.version, first.lane_failures) == (1, 0)
        assert await store.deliveries.claim(request()) == []
        clock.pass_(CLAIM_SECONDS + 0.001)
        [second] = await store.deliveries.claim(request())
        assert (second.notification_id, second.attempt) == (first.notification_id, 2)
        assert not await store.deliveries.finish(ended(first, "sent"))
        assert await store.deliveries.finish(ended(second, "sent", status_code=204))
        assert not await store.deliveries.finish(ended(second, "failed", error="late"))
        clock.pass_(86_400)
        assert await store.deliveries.claim(request()) == []
        [kept] = await outbox(store)
        assert (kept.delivery_status, kept.attempt_count, kept.last_error) == ("sent", 2, None)
        assert kept.sent_at is not None
        [line] = await store.tenant(ORG).delivery_attempts(kept.notification_id, limit=10)
        assert (line.attempt, line.status, line.status_code, line.seconds) == (2, "sent", 204, 0.25)
        assert await store.tenant("org-b").delivery_attempts(kept.notification_id, limit=10) == []
        assert await store.tenant("org-b").delivery(kept.notification_id) is None

    harness.run(body)


def test_a_failure_is_tried_again_when_told(harness: Harness) -> None:
    """Not before; the error stays readable until it arrives, and every attempt is in the log."""

    async def body(store: Store, clock: SetClock) -> None:
        await endpoint(store, clock)
        await completed(store, clock)
        [one] = await store.deliveries.claim(request())
        again = ended(one, "pending", retry_seconds=60, error="HTTP 500", status_code=500, lane_failed=True)
        assert await store.deliveries.finish(again)
        [kept] = await outbox(store)
        assert (kept.delivery_status, kept.last_error, kept.claimed_until) == ("pending", "HTTP 500", None)
        clock.pass_(59)
        assert await store.deliveries.claim(request()) == []
        clock.pass_(1)
        [one] = await store.deliveries.claim(request())
        assert (one.attempt, one.lane_failures) == (2, 1)
        assert await store.deliveries.finish(ended(one, "failed", error="HTTP 400", status_code=400))
        [kept] = await outbox(store)
        assert (kept.delivery_status, kept.last_error) == ("failed", "HTTP 400")
        lines = await store.tenant(ORG).delivery_attempts(kept.notification_id, limit=10)
        assert [(line.attempt, line.error) for line in lines] == [(2, "HTTP 400"), (1, "HTTP 500")]

    harness.run(body)


def test_what_is_said_twice_is_noted_once(harness: Harness) -> None:
    """An answer may be lost: the end of an attempt is told again, and nothing is counted or made late by that."""

    async def body(store: Store, clock: SetClock) -> None:
        await endpoint(store, clock)
        await completed(store, clock)
        [one] = await store.deliveries.claim(request())
        again = ended(one, "pending", retry_seconds=60, error="HTTP 500", status_code=500, lane_failed=True)
        assert await store.deliveries.finish(again)
        clock.pass_(30)
        assert await store.deliveries.finish(again)
        assert not await store.deliveries.finish(ended(one, "sent"))
        [seen] = await store.tenant(ORG).endpoints()
        assert seen.failures == 1
        assert len(await store.tenant(ORG).delivery_attempts(one.notification_id, limit=10)) == 1
        clock.pass_(30)
        [two] = await store.deliveries.claim(request())
        assert await store.deliveries.finish(ended(two, "sent"))
        assert await store.deliveries.finish(ended(two, "sent"))
        assert len(await store.tenant(ORG).delivery_attempts(one.notification_id, limit=10)) == 2

    harness.run(body)


def test_no_lane_holds_up_another(harness: Harness) -> None:
    """One that has much to send gets its few places, and the others theirs; orgs do not share lanes."""

    async def body(store: Store, clock: SetClock) -> None:
        busy = await endpoint(store, clock)
        for _ in range(5):
            await completed(store, clock)
        quiet = await endpoint(store, clock, org="org-b")
        await completed(store, clock, org="org-b")
        taken = await store.deliveries.claim(request(most=3))
        assert sorted(one.endpoint_id or "" for one in taken) == sorted([busy.endpoint_id] * 2 + [quiet.endpoint_id])
        assert await store.deliveries.claim(request()) == []
        for one in taken:
            assert await store.deliveries.finish(ended(one, "sent"))
        assert len(await store.deliveries.claim(request())) == 2

    harness.run(body)


def test_a_lane_that_fails_is_left_alone_then_tried_with_one(harness: Harness) -> None:
    """While it is paused nothing is claimed; then one at a time, until it works: then what waits is due at once."""

    async def body(store: Store, clock: SetClock) -> None:
        mine = await endpoint(store, clock)
        for _ in range(4):
            await completed(store, clock)
        for failures in range(3):
            clock.pass_(10)
            one = (await store.deliveries.claim(request(most=1)))[0]
            assert one.lane_failures == failures
            pause = 60.0 if failures == 2 else None
            bad = ended(one, "pending", retry_seconds=3_600, error="down", lane_failed=True, pause_seconds=pause)
            assert await store.deliveries.finish(bad)
        [seen] = await store.tenant(ORG).endpoints()
        assert (seen.endpoint_id, seen.failures) == (mine.endpoint_id, 3)
        assert seen.failing_since is not None
        assert seen.paused_until is not None
        assert await store.deliveries.claim(request()) == []
        assert (await store.deliveries.figures()).paused_lanes == 1
        clock.pass_(60)
        [probe] = await store.deliveries.claim(request())
        assert await store.deliveries.claim(request()) == []
        assert await store.deliveries.finish(ended(probe, "sent"))
        [seen] = await store.tenant(ORG).endpoints()
        assert (seen.failures, seen.failing_since, seen.paused_until) == (0, None, None)
        left = [one for _ in range(2) for one in await store.deliveries.claim(request(most_of_lane=10))]
        assert len(left) == 3  # they were to wait for an hour

    harness.run(body)


def test_an_endpoint_that_is_gone_is_not_called_again(harness: Harness) -> None:
    """It is disabled with the attempt that said so; what waits is given up, what comes later is not even written."""

    async def body(store: Store, clock: SetClock) -> None:
        mine = await endpoint(store, clock)
        for _ in range(3):
            await completed(store, clock)
        one = (await store.deliveries.claim(request(most=1)))[0]
        assert await store.deliveries.finish(ended(one, "failed", error="HTTP 410", disable="HTTP 410"))
        [seen] = await store.tenant(ORG).endpoints()
        assert (seen.disabled_at is not None, seen.disabled_reason) == (True, "HTTP 410")
        await completed(store, clock)
        found = await outbox(store)
        assert [one.delivery_status for one in found] == ["failed"] * 3
        assert await store.deliveries.claim(request()) == []
        assert (await store.deliveries.figures()).disabled_endpoints == 1
        assert await store.deliveries.replay(DeliveryReplay(org_id=ORG, endpoint_id=mine.endpoint_id)) == 0
        back = EndpointChange(org_id=ORG, endpoint_id=mine.endpoint_id, enabled=True)
        assert (await store.deliveries.change_endpoint(back)) is not None
        assert await store.deliveries.replay(DeliveryReplay(org_id=ORG, endpoint_id=mine.endpoint_id)) == 3

    harness.run(body)


def test_what_is_replayed_keeps_its_id_and_has_all_its_tries(harness: Harness) -> None:
    """One message by its id, or what failed of an endpoint; what arrived only if that is said; never another org's."""

    async def body(store: Store, clock: SetClock) -> None:
        await endpoint(store, clock)
        await completed(store, clock)
        [one] = await store.deliveries.claim(request())
        assert await store.deliveries.finish(ended(one, "sent"))
        wish = DeliveryReplay(org_id=ORG, notification_id=one.notification_id)
        assert await store.deliveries.replay(wish) == 0
        foreign = DeliveryReplay(org_id="org-b", notification_id=one.notification_id, sent_too=True)
        assert await store.deliveries.replay(foreign) == 0
        assert await store.deliveries.replay(msgspec.structs.replace(wish, sent_too=True)) == 1
        [again] = await store.deliveries.claim(request())
        assert (again.notification_id, again.attempt, again.try_number) == (one.notification_id, 2, 1)
        assert again.payload_json == one.payload_json

    harness.run(body)


def test_endpoints_are_added_changed_and_removed(harness: Harness) -> None:
    """An address once per org, so many and no more; another org's cannot be touched."""

    async def body(store: Store, clock: SetClock) -> None:
        mine = await endpoint(store, clock, url="https://a.example/")
        again = msgspec.structs.replace(mine, endpoint_id=new_id())
        assert await store.deliveries.add_endpoint(again) is None
        theirs = await endpoint(store, clock, org="org-b", url="https://a.example/")
        change = EndpointChange(
            org_id=ORG, endpoint_id=mine.endpoint_id, name="other", subjects=SUBJECTS, rotate_seconds=60
        )
        changed = await store.deliveries.change_endpoint(change)
        assert changed is not None
        assert (changed.name, changed.subjects, changed.version) == ("other", SUBJECTS, 2)
        assert changed.former_until == clock.now() + 60_000_000
        assert await store.deliveries.change_endpoint(msgspec.structs.replace(change, org_id="org-b")) is None
        assert not await store.deliveries.remove_endpoint("org-b", mine.endpoint_id)
        await completed(store, clock)
        assert await store.deliveries.remove_endpoint(ORG, mine.endpoint_id)
        assert await store.tenant(ORG).endpoints() == []
        assert {one.delivery_status for one in await outbox(store)} == {"failed"}
        assert await store.deliveries.claim(request()) == []
        assert [one.endpoint_id for one in await store.tenant("org-b").endpoints()] == [theirs.endpoint_id]
        for _ in range(MOST_ENDPOINTS):
            await endpoint(store, clock)
        more = WebhookEndpoint(
            org_id=ORG, endpoint_id=new_id(), url="https://z.example/", name="", subjects=SUBJECTS, created_at=0
        )
        assert await store.deliveries.add_endpoint(more) is None

    harness.run(body)


def test_the_log_of_an_org_is_read_page_by_page(harness: Harness) -> None:
    """Newest first, by endpoint, job and status."""

    async def body(store: Store, clock: SetClock) -> None:
        one = await endpoint(store, clock)
        other = await endpoint(store, clock)
        jobs = [await completed(store, clock) for _ in range(3)]
        reads = store.tenant(ORG)
        pages: list[Notification] = []
        before = None
        while page := await reads.deliveries(DeliveryFilter(limit=2, before=before)):
            pages += page
            before = (page[-1].created_at, page[-1].notification_id)
        assert [found.job_id for found in pages] == [job for job in reversed(jobs) for _ in range(2)]
        of_one = await reads.deliveries(DeliveryFilter(endpoint_id=one.endpoint_id))
        assert [found.job_id for found in of_one] == list(reversed(jobs))
        of_job = await reads.deliveries(DeliveryFilter(job_id=jobs[0]))
        assert {found.endpoint_id for found in of_job} == {one.endpoint_id, other.endpoint_id}
        assert await reads.deliveries(DeliveryFilter(status="sent")) == []
        assert len(await reads.deliveries(DeliveryFilter(status="pending"))) == 6
        figures = await store.deliveries.figures()
        assert figures.pending == {"webhook": 6}
        assert figures.oldest_due == pages[-1].created_at

    harness.run(body)


def test_what_waits_behind_a_message_in_flight_is_due(harness: Harness) -> None:
    """The figure of the metrics and of `doctor` counts it, and counts no message that is being sent."""

    async def body(store: Store, clock: SetClock) -> None:
        await endpoint(store, clock)
        for _ in range(2):
            await completed(store, clock)
            clock.pass_(1)
        second, first = await store.tenant(ORG).deliveries(DeliveryFilter())
        assert first.created_at < second.created_at
        assert (await store.deliveries.figures()).oldest_due == first.created_at
        assert len(await store.deliveries.claim(request(most=1))) == 1
        assert (await store.deliveries.figures()).oldest_due == second.created_at
        assert len(await store.deliveries.claim(request(most_of_lane=2))) == 1
        assert (await store.deliveries.figures()).oldest_due is None

    harness.run(body)


def test_claims_go_with_their_job(harness: Harness) -> None:
    """A claim that finds nothing due in a lane, because all of it is being sent, leaves it alone."""

    async def body(store: Store, clock: SetClock) -> None:
        await endpoint(store, clock, subjects=("started",))
        await accept(store, clock)
        await claim(store)
        [one] = await store.deliveries.claim(request(most_of_lane=5))
        assert one.template_key == "async.job.started"
        assert await store.deliveries.claim(request(most_of_lane=5)) == []

    harness.run(body)


def test_orgs_take_turns_however_many_lanes_they_have(harness: Harness) -> None:
    """What an org has under way counts: one that names many receivers does not keep others from theirs."""

    async def body(store: Store, clock: SetClock) -> None:
        for number in range(6):
            wish = Subscription(channel="webhook", target=f"https://{number}.example/", lane=f"job-{number}")
            await completed(store, clock, subscriptions=(wish,))
        first = await store.deliveries.claim(request(most=3))
        assert {one.org_id for one in first} == {ORG}
        await endpoint(store, clock, org="org-b")
        await completed(store, clock, org="org-b")
        assert [one.org_id for one in await store.deliveries.claim(request(most=1))] == ["org-b"]
        assert [one.org_id for one in await store.deliveries.claim(request(most=9))] == [ORG] * 3

    harness.run(body)


def test_a_claim_that_came_to_nothing_is_no_try(harness: Harness) -> None:
    """A sender that was killed before it could say how it went costs a message time, not one of its tries."""

    async def body(store: Store, clock: SetClock) -> None:
        await endpoint(store, clock)
        await completed(store, clock)
        for attempt in (1, 2, 3):
            [one] = await store.deliveries.claim(request())
            assert (one.attempt, one.try_number) == (attempt, 1)
            clock.pass_(CLAIM_SECONDS + 0.001)
        [one] = await store.deliveries.claim(request())
        assert await store.deliveries.finish(ended(one, "pending", error="HTTP 500"))
        [one] = await store.deliveries.claim(request())
        assert (one.attempt, one.try_number) == (5, 2)

    harness.run(body)


def test_a_pause_is_not_shortened_by_another_failure(harness: Harness) -> None:
    """Two are on their way: one is asked to wait for an hour, the other merely fails."""

    async def body(store: Store, clock: SetClock) -> None:
        await endpoint(store, clock)
        for _ in range(3):
            await completed(store, clock)
        patient, other = await store.deliveries.claim(request())
        assert await store.deliveries.finish(
            ended(patient, "pending", error="HTTP 429", lane_failed=True, pause_seconds=3_600.0)
        )
        assert await store.deliveries.finish(ended(other, "pending", error="HTTP 500", lane_failed=True))
        clock.pass_(3_599)
        assert await store.deliveries.claim(request()) == []
        clock.pass_(1)
        assert len(await store.deliveries.claim(request())) == 2

    harness.run(body)
