"""Events as they go out: the same from the feed and from a webhook."""

import msgspec
import pytest

from langlauf.domain.event import OUTBOUND, STATE_AFTER, EventType, cloud_event, event_source
from langlauf.domain.instant import from_text

_NAMES = {"queued": "queued", "running": "started"} | {
    name: name for name in ("partial", "completed", "failed", "canceled")
}


@pytest.mark.parametrize("kind", OUTBOUND)
def test_every_member_of_the_contract_is_there_and_only_what_is_small(kind: EventType) -> None:
    made = cloud_event(
        event_id="e",
        kind=kind,
        job_id="j",
        org_id="o",
        status=STATE_AFTER[kind],
        event_seq=7,
        occurred_at=from_text("2026-03-02T09:30:04.000001Z"),
        trace_id="t",
        result_id="r",
        source="/analyze",
    )
    at = "2026-03-02T09:30:04.000001Z"
    assert msgspec.json.decode(msgspec.json.encode(made)) == {
        "specversion": "1.0",
        "id": "e",
        "source": "/analyze",
        "type": f"api.analyze.job.{_NAMES[kind.removeprefix('job.')]}",
        "subject": "j",
        "time": at,
        "timestamp": at,
        "datacontenttype": "application/json",
        "data": {
            "job_id": "j",
            "org_id": "o",
            "status": kind.removeprefix("job."),
            "event_seq": 7,
            "occurred_at": at,
            "trace_id": "t",
            "result_id": "r",
        },
    }


def test_outbound_events_are_those_that_change_the_state() -> None:
    assert set(OUTBOUND) == set(STATE_AFTER)


@pytest.mark.parametrize(
    ("public", "source"),
    [
        (None, "/analyze"),
        ("https://jobs.example", "https://jobs.example/analyze"),
        ("https://example/jobs/", "https://example/jobs/analyze"),
    ],
)
def test_the_source_is_the_address_of_the_api_or_its_path(public: str | None, source: str) -> None:
    assert event_source(public, "/analyze") == source
