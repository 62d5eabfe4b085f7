"""Examples of responses on what an org has beside jobs: a webhook endpoint, its deliveries, and a schedule."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from langlauf.api import record_schemas as records
from langlauf.api import response_schemas as responses

# -- webhooks ----------------------------------------------------------------------------------------------------------

_ENDPOINT_ID = "01a1e22c-1f00-7c55-8d21-6b1f8f7a9c03"
_MESSAGE_ID = "01a1e22d-6bc1-4e0b-9a53-2f7d3e90a6c4"
_ORG = "acme"
_URL = "https://hooks.example.com/jobs"
_MADE = datetime(2026, 3, 1, 8, 0, 0, tzinfo=UTC)
_ENDED = datetime(2026, 3, 2, 9, 30, 4, tzinfo=UTC)
_SENT = datetime(2026, 3, 2, 9, 30, 9, tzinfo=UTC)


def webhook_answers(common: dict[str, Any], job_id: str, result_id: str) -> dict[str, msgspec.Struct]:
    """Return the examples by name."""
    delivery = _delivery(job_id, result_id)
    shown = "whsec_…"
    return {
        "endpoints": responses.EndpointsResponse(**common, webhooks=[_endpoint()]),
        "endpoint": responses.EndpointResponse(**common, webhook=_endpoint()),
        "added": responses.CreatedEndpointResponse(**common, webhook=_endpoint(), secret=shown),
        "org_secret": responses.OrgSecretResponse(**common, secret=shown, former_secret=None),
        "removed": responses.RemovedEndpointResponse(**common, endpoint_id=_ENDPOINT_ID),
        "tried": responses.WebhookTestResponse(
            **common, taken=True, seconds=0.184, status_code=204, error=None, reply=None
        ),
        "replayed": responses.ReplayResponse(**common, replayed=12, more=False),
        "deliveries": responses.DeliveriesResponse(**common, deliveries=[delivery], next_cursor=None),
        "delivery": responses.DeliveryResponse(**common, delivery=delivery, attempts=_attempts()),
        "again": responses.ReplayedDeliveryResponse(
            **common, delivery=msgspec.structs.replace(delivery, delivery_status="pending", scheduled_at=_SENT)
        ),
    }


def _endpoint() -> records.EndpointOut:
    return records.EndpointOut(
        endpoint_id=_ENDPOINT_ID,
        org_id=_ORG,
        url=_URL,
        name="warehouse",
        events=["completed", "failed"],
        status="working",
        created_at=_MADE,
        secret_version=1,
        former_secret_until=None,
        disabled_at=None,
        disabled_reason=None,
        failures=0,
        failing_since=None,
        paused_until=None,
    )


def _delivery(job_id: str, result_id: str) -> records.DeliveryOut:
    return records.DeliveryOut(
        notification_id=_MESSAGE_ID,
        job_id=job_id,
        org_id=_ORG,
        channel="webhook",
        template_key="async.job.completed",
        delivery_status="sent",
        attempt_count=2,
        last_error=None,
        dedupe_key=f"{job_id}:webhook:async.job.completed:{_ENDPOINT_ID}",
        scheduled_at=_SENT,
        sent_at=_SENT,
        created_at=_ENDED,
        payload_json={"job_id": job_id, "status": "completed", "event_seq": 3, "result_id": result_id},
        endpoint_id=_ENDPOINT_ID,
        target=_URL,
    )


def _attempts() -> list[records.AttemptOut]:
    failed = records.AttemptOut(
        attempt=1,
        at=_ENDED,
        seconds=0.21,
        status="pending",
        status_code=503,
        error="the receiver answered 503",
        reply="back in a minute",
    )
    taken = records.AttemptOut(
        attempt=2, at=_SENT, seconds=0.18, status="sent", status_code=204, error=None, reply=None
    )
    return [taken, failed]


# -- schedules ---------------------------------------------------------------------------------------------------------

_NEXT = [datetime(2026, 3, day, 5, 0, 0, tzinfo=UTC) for day in (3, 4, 5, 6, 9)]


def schedule_answers(common: dict[str, Any], job_id: str, job: records.JobOut) -> dict[str, msgspec.Struct]:
    """Return the examples by name."""
    one = _schedule(job_id)
    return {
        "schedules": responses.SchedulesResponse(**common, schedules=[one]),
        "schedule": responses.ScheduleResponse(**common, schedule=one),
        "schedule_runs": responses.ScheduleRunsResponse(**common, schedule=one, runs=[job]),
        "removed_schedule": responses.RemovedScheduleResponse(**common, name=one.name),
    }


def _schedule(job_id: str) -> records.ScheduleOut:
    return records.ScheduleOut(
        name="morning",
        analysis="survey",
        input={"region": "BE"},
        cron="0 6 * * 1-5",
        every_seconds=None,
        zone="Europe/Zurich",
        overlap="skip",
        missed="once",
        paused=False,
        notify={"email": "name@example.org"},
        source="api",
        created_at=_MADE,
        updated_at=_MADE,
        next_runs=_NEXT,
        last_run_at=datetime(2026, 3, 2, 5, 0, 0, tzinfo=UTC),
        last_outcome="submitted",
        last_job_id=job_id,
    )
