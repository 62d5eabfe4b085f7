"""Handlers of an org's schedules."""

from collections.abc import Awaitable
from itertools import islice
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from langlauf.analysis.schema import InvalidInput, read_input
from langlauf.api.context import ApiContext, json_response
from langlauf.api.request_schemas import ChangeScheduleBody, CreateScheduleBody, NotifyBody
from langlauf.api.requests import refuse_unknown_parameters
from langlauf.api.response_schemas import (
    RemovedScheduleResponse,
    ScheduleResponse,
    ScheduleRunsResponse,
    SchedulesResponse,
)
from langlauf.api.submit import SubmitHandler
from langlauf.api.submit_request import PreferHeader, idempotency_key
from langlauf.api.wire import job_out, schedule_out
from langlauf.auth.caller import Caller
from langlauf.domain.schedule import Schedule, planned_times
from langlauf.problems import Problem, bad_request, not_found
from langlauf.service.schedules import ScheduleExists
from langlauf.settings_values import parse_duration

T = TypeVar("T")
#: Runs in the answer about one schedule, and planned times of each.
SHOWN_RUNS = 5


class ScheduleHandlers:
    """Handlers under `/analyze/schedules`."""

    def __init__(self, context: ApiContext, submitting: SubmitHandler) -> None:
        self._context = context
        self._submitting = submitting
        self._schedules = context.services.schedules

    async def list(self, request: Request, caller: Caller) -> Response:
        """List the org's schedules by name."""
        refuse_unknown_parameters(request)
        found = [schedule_out(one, shown_runs(one)) for one in await self._schedules.all_of(caller.org_id)]
        return json_response(SchedulesResponse(request_id=caller.request_id, schedules=found))

    async def create(self, request: Request, caller: Caller) -> Response:
        """Add a schedule."""
        refuse_unknown_parameters(request)
        sent: CreateScheduleBody = read_input(CreateScheduleBody, await self._context.body(request, optional=True))
        made = await as_problem(self._schedules.add(new_schedule(caller.org_id, sent)))
        body = ScheduleResponse(request_id=caller.request_id, schedule=schedule_out(made, shown_runs(made)))
        address = f"{self._context.links(request).base}/schedules/{made.name}"
        return json_response(body, 201, headers={"Location": address})

    async def one(self, request: Request, caller: Caller) -> Response:
        """Return one schedule and its newest runs."""
        refuse_unknown_parameters(request)
        found = await self._schedules.one(caller.org_id, _name(request))
        if found is None:
            raise not_found()
        links, reads = self._context.links(request), self._context.services.reads
        views = await self._schedules.runs(caller.org_id, found.name, SHOWN_RUNS)
        runs = [job_out(view.job, await reads.derived_fields(view), links) for view in views]
        body = ScheduleRunsResponse(
            request_id=caller.request_id, schedule=schedule_out(found, shown_runs(found)), runs=runs
        )
        return json_response(body)

    async def change(self, request: Request, caller: Caller) -> Response:
        """Change the given fields."""
        refuse_unknown_parameters(request)
        sent: ChangeScheduleBody = read_input(ChangeScheduleBody, await self._context.body(request, optional=True))
        changed = await as_problem(self._schedules.change(caller.org_id, _name(request), _changes(sent)))
        if changed is None:
            raise not_found()
        body = ScheduleResponse(request_id=caller.request_id, schedule=schedule_out(changed, shown_runs(changed)))
        return json_response(body)

    async def remove(self, request: Request, caller: Caller) -> Response:
        """Remove a schedule."""
        refuse_unknown_parameters(request)
        if not await self._schedules.remove(caller.org_id, _name(request)):
            raise not_found()
        return json_response(RemovedScheduleResponse(request_id=caller.request_id, name=_name(request)))

    async def run(self, request: Request, caller: Caller) -> Response:
        """Submit one run now."""
        refuse_unknown_parameters(request)
        await self._context.body(request, optional=True)
        made = await as_problem(self._schedules.run_now(caller, _name(request), idempotency_key(request)))
        if made is None:
            raise not_found()
        return await self._submitting.accepted(request, caller, made, PreferHeader())


def new_schedule(org_id: str, sent: CreateScheduleBody) -> Schedule:
    """Return a schedule as it was sent, to be checked and stored."""
    return Schedule(
        org_id=org_id,
        name=sent.name,
        analysis=sent.analysis or "",
        input=_text(sent.input),
        cron=sent.cron,
        every_seconds=_seconds(sent.every_seconds),
        zone=sent.zone,
        overlap=sent.overlap,
        missed=sent.missed,
        paused=sent.paused,
        notify=_notify(sent.notify),
    )


async def as_problem(work: Awaitable[T]) -> T:
    """Return a result; what is wrong with a schedule becomes 400, a name that is taken 409."""
    try:
        return await work
    except InvalidInput as error:
        raise bad_request(error.message, error.field) from None
    except ScheduleExists as error:
        text = str(error)
        raise Problem(409, "schedule_exists", f"{text[0].upper()}{text[1:]}.", field="name") from None


def shown_runs(one: Schedule) -> list[int]:
    """Return the next planned times; the stored one alone where this machine does not know the time zone."""
    if one.next_run_at is None:
        return []
    try:
        return [one.next_run_at, *islice(planned_times(one, one.next_run_at), SHOWN_RUNS - 1)]
    except ValueError:
        return [one.next_run_at]


def _changes(sent: ChangeScheduleBody) -> dict[str, Any]:
    """Return the fields to change, as they are stored."""
    given = {name: value for name in sent.__struct_fields__ if (value := getattr(sent, name)) is not msgspec.UNSET}
    if "input" in given:
        given["input"] = _text(given["input"])
    if "notify" in given:
        given["notify"] = _notify(given["notify"])
    if "every_seconds" in given:
        given["every_seconds"] = _seconds(given["every_seconds"])
        given.setdefault("cron", None)
    elif "cron" in given:
        given["every_seconds"] = None
    return given


def _name(request: Request) -> str:
    return str(request.path_params["schedule"])


def _text(values: dict[str, Any]) -> str:
    return msgspec.json.encode(values).decode()


def _notify(body: NotifyBody | None) -> str | None:
    return None if body is None else _text({name: value for name, value in _members(body) if value is not None})


def _members(body: NotifyBody) -> list[tuple[str, Any]]:
    return list(msgspec.structs.asdict(body).items())


def _seconds(value: float | str | None) -> float | None:
    try:
        return parse_duration(value) if isinstance(value, str) else value
    except ValueError as error:
        raise bad_request(f"every_seconds: {error}.", "every_seconds") from None
