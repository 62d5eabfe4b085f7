"""Examples of schedule responses: every working day at six."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from langlauf.api import record_schemas as records
from langlauf.api import response_schemas as responses

_MADE = datetime(2026, 3, 1, 8, 0, 0, tzinfo=UTC)
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
