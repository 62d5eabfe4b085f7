"""An outbox with a message in every state, brought there by legal steps."""

from langlauf.clock import new_id
from langlauf.domain.delivery import (
    SUBJECTS,
    Delivery,
    DeliveryClaim,
    DeliveryEnd,
    EndpointChange,
    Subscription,
    WebhookEndpoint,
)
from tests.support.store_kinds import StoreUnderTest
from tests.support.stores import JobFactory

HOOK = Subscription(channel="webhook", target="https://hook.example/a", lane="https://hook.example")
MAIL = Subscription(channel="email", target="who@mail.example", lane="mail", language="de")
CLAIM = DeliveryClaim(most=10, most_of_lane=10, claim_seconds=30.0, cautious_after=3)


async def told(make: JobFactory) -> dict[str, str]:
    """Jobs whose ends the world outside hears of; their ids by how far that is. Comes behind all other jobs."""
    arrived = await _wished(make, HOOK, MAIL)
    for one in await make.store.deliveries.claim(CLAIM):
        code = 204 if one.channel == "webhook" else None
        assert await make.store.deliveries.finish(_end(one, status="sent", status_code=code, reply="thanks"))
        make.clock.pass_(0.1)
    given_up = await _wished(make, HOOK)
    [one] = await make.store.deliveries.claim(CLAIM)
    assert await make.store.deliveries.finish(
        _end(one, status="failed", status_code=400, error="HTTP 400", lane_failed=True)
    )
    await _endpoint(make, "https://all.example/hook")
    tired = await _endpoint(make, "https://tired.example/hook")
    tried = await _wished(make)
    for one in await make.store.deliveries.claim(CLAIM):
        again = _end(one, status="pending", retry_seconds=3600, error="HTTP 500", status_code=500, lane_failed=True)
        assert await make.store.deliveries.finish(again)
    off = EndpointChange(org_id=make.org_id, endpoint_id=tired, enabled=False, reason="enough")
    assert await make.store.deliveries.change_endpoint(off)
    assert await make.store.mail.add_mark(make.org_id, "gone@mail.example", "unsubscribed")
    waits = await _wished(make, HOOK, MAIL)
    taken = [one for one in await make.store.deliveries.claim(CLAIM) if one.channel == "email"]
    assert [one.attempt for one in taken] == [1]
    return {"arrived": arrived, "given_up": given_up, "tried": tried, "waits": waits}


async def _wished(make: JobFactory, *subscriptions: Subscription) -> str:
    job = await make.queued(subscriptions=subscriptions)
    await make.finish(await make.claim(job), 1)
    return job.job_id


async def _endpoint(make: JobFactory, url: str) -> str:
    new = WebhookEndpoint(
        org_id=make.org_id,
        endpoint_id=new_id(),
        url=url,
        name="ü",
        subjects=SUBJECTS,
        created_at=0,
    )
    made = await make.store.deliveries.add_endpoint(new)
    assert made is not None
    return made.endpoint_id


def _end(one: Delivery, **values: object) -> DeliveryEnd:
    ids = {"org_id": one.org_id, "notification_id": one.notification_id, "attempt": one.attempt, "seconds": 0.25}
    return DeliveryEnd(**ids, **values)  # type: ignore[arg-type]


def leave_pending(bed: StoreUnderTest, job_id: str, channel: str, org_id: str = "org-a") -> None:
    """A message about the end of a job that is still to be sent."""
    bed.query(
        "INSERT INTO notifications (org_id, notification_id, job_id, channel, template_key, delivery_status,"
        " attempt_count, dedupe_key, scheduled_at, created_at, payload_json)"
        " VALUES (?, ?, ?, ?, 'async.job.completed', 'pending', 0, ?, 0, 0, '{}')",
        org_id,
        f"message-{job_id}",
        job_id,
        channel,
        f"{job_id}:{channel}:async.job.completed",
    )
