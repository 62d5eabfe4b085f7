"""Operations on an org's schedules."""

from langlauf.api import response_schemas as responses
from langlauf.api.operation import BODY, ONE, TENANT, Codes, Operation
from langlauf.domain.access import Scope

_SCHEDULE = ("schedule", *TENANT)
_QUEUE: Codes = {429: ("queue_full",), 503: ("queue_full",)}

SCHEDULE_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="listSchedules",
        method="get",
        path="{prefix}/schedules",
        summary="List the org's schedules, with their next runs.",
        tag="schedules",
        scope=Scope.READ,
        answer=responses.SchedulesResponse,
        parameters=TENANT,
    ),
    Operation(
        name="createSchedule",
        method="post",
        path="{prefix}/schedules",
        summary="Add a schedule.",
        tag="schedules",
        scope=Scope.SUBMIT,
        answer=responses.ScheduleResponse,
        successes=(201,),
        headers={201: ("Location",)},
        body="CreateScheduleBody",
        parameters=TENANT,
        problems={**BODY, 409: ("schedule_exists",)},
    ),
    Operation(
        name="getSchedule",
        method="get",
        path="{prefix}/schedules/{schedule}",
        summary="Get one schedule, with its newest runs.",
        tag="schedules",
        scope=Scope.READ,
        answer=responses.ScheduleRunsResponse,
        parameters=_SCHEDULE,
        problems=ONE,
    ),
    Operation(
        name="changeSchedule",
        method="patch",
        path="{prefix}/schedules/{schedule}",
        summary="Change a schedule, pause or resume it.",
        tag="schedules",
        scope=Scope.SUBMIT,
        answer=responses.ScheduleResponse,
        body="ChangeScheduleBody",
        parameters=_SCHEDULE,
        problems={**ONE, **BODY},
    ),
    Operation(
        name="removeSchedule",
        method="delete",
        path="{prefix}/schedules/{schedule}",
        summary="Remove a schedule; its jobs stay.",
        tag="schedules",
        scope=Scope.SUBMIT,
        answer=responses.RemovedScheduleResponse,
        parameters=_SCHEDULE,
        problems=ONE,
    ),
    Operation(
        name="runSchedule",
        method="post",
        path="{prefix}/schedules/{schedule}/run",
        summary="Submit one run of a schedule now.",
        tag="schedules",
        scope=Scope.SUBMIT,
        answer=responses.AcceptedResponse,
        successes=(202,),
        accepts=True,
        headers={202: ("Location", "Retry-After", "Idempotent-Replayed?")},
        parameters=(*_SCHEDULE, "X-User-Id", "traceparent", "tracestate", "Idempotency-Key"),
        problems={**ONE, **BODY, **_QUEUE, 422: ("idempotency_mismatch",)},
    ),
)
