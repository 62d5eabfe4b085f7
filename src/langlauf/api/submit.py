"""`POST /analyze`: accept a job with 202, or wait for its result."""

from collections import Counter
from collections.abc import Callable
from typing import NoReturn

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from langlauf.api.context import ApiContext, json_response
from langlauf.api.requests import refuse_unknown_parameters
from langlauf.api.response_schemas import AcceptedResponse, SyncResponse
from langlauf.api.submit_request import PreferHeader, idempotency_key, read_prefer_header, read_submit_request
from langlauf.api.wire import job_out
from langlauf.auth.caller import Caller
from langlauf.clock import draw
from langlauf.domain.instant import seconds_between
from langlauf.domain.job import Accepted, Duplicate, JobRecord, KeyReused, QueueFull, Replayed, SubmitOutcome
from langlauf.domain.read_models import JobView
from langlauf.domain.state import Status
from langlauf.problems import Problem
from langlauf.server.asgi import watch_client
from langlauf.service.follower import Disconnectable
from langlauf.service.submit import SubmitRequest

#: The largest share that a request waits longer than the limit: requests that began together would otherwise end in one
#: moment, and every other request would wait for them.
_SPREAD = 0.05
_CALLER_LEFT = "the caller of a synchronous request went away"
_STATUS_OF_CODE = {"timeout": 504, "timeout_max_retries": 504, "network_error": 502, "validation_error": 422}


class SubmitHandler:
    """Accepts submissions."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._services = context.services
        self._callers = _SynchronousCallers()

    async def analyze(self, request: Request, caller: Caller) -> Response:
        """Run an analysis: wait for its result, or accept it as a job."""
        refuse_unknown_parameters(request)
        body = await self._context.body(request)
        submission, mode = read_submit_request(body, idempotency_key(request), checked=True)
        if _wants_fresh(request):
            submission = msgspec.structs.replace(submission, reuse=False)
        preferences = read_prefer_header(request.headers.getlist("prefer"))
        asynchronous = mode.requested or preferences.respond_async or mode.waits
        if asynchronous and not preferences.wait_seconds:
            submitted = await self._services.submissions.submit(caller, submission)
            return await self.accepted(request, caller, submitted, preferences)
        # The slot is taken before the job is accepted: a refused client can repeat the same request.
        with self._services.followers.slots.take(caller.counted_as, "wait"):
            if asynchronous:
                submitted = await self._services.submissions.submit(caller, submission)
                return await self.accepted(request, caller, submitted, preferences)
            submitted = await self._services.submissions.submit(caller, _always_accepted(submission))
            return await self._synchronous(request, caller, submitted)

    async def accepted(
        self, request: Request, caller: Caller, submitted: SubmitOutcome, preferences: PreferHeader
    ) -> Response:
        """Return 202 with the job, or its result where the client waits and the job ends in time."""
        job = await self._job_or_problem(request, caller, submitted)
        links, reads = self._context.links(request), self._services.reads
        headers = {} if isinstance(submitted, Accepted) else {"Idempotent-Replayed": "true"}
        if preferences.applied:
            headers["Preference-Applied"] = preferences.applied
        if preferences.wait_seconds:
            view = await self._until_ended(caller, job, preferences.wait_seconds, WaitingClient(request))
            if view.job.terminal:
                return await self._ended(request, caller, view.job, headers)
            job, moment = view.job, await reads.derived_fields(view)
        elif isinstance(submitted, Accepted):
            moment = reads.derived_fields_of_new(job)
        else:  # it may be running by now, so its lease is needed
            view = await reads.of(caller).job(job.job_id) or JobView(job, None)
            job, moment = view.job, await reads.derived_fields(view)
        headers |= {"Location": links.job(job.job_id), "Retry-After": str(moment.poll_after)}
        body = AcceptedResponse(request_id=caller.request_id, job=job_out(job, moment, links))
        return json_response(body, 202, headers=headers)

    async def _synchronous(self, request: Request, caller: Caller, submitted: SubmitOutcome) -> Response:
        job = await self._job_or_problem(request, caller, submitted)
        limit = self._context.settings.sync_limit
        replayed = isinstance(submitted, Replayed)
        client = WaitingClient(request)
        counted = self._callers.enter(job.job_id, first=not replayed)
        try:
            view = await self._until_ended(caller, job, limit * (1 + _SPREAD * draw()), client)
        finally:
            was_last = counted and self._callers.leave(job.job_id)
        headers = {"Idempotent-Replayed": "true"} if replayed else {}
        if not view.job.terminal and self._services.followers.closing:
            raise Problem(
                503,
                "unavailable",
                "The server is shutting down; the job goes on. Read its status at Content-Location.",
                headers={"Retry-After": "5", "Content-Location": self._context.links(request).job(job.job_id)},
                job_id=job.job_id,
            )
        if not view.job.terminal and client.left:
            if was_last:
                await self._services.control.cancel(caller, job.job_id, _CALLER_LEFT, by="system")
            raise ClientDisconnect
        if not view.job.terminal:
            if not replayed:
                reason = f"no result within {limit:g} s of a synchronous request"
                await self._services.control.cancel(caller, job.job_id, reason, by="system")
            became = "the job goes on" if replayed else "the job was canceled"
            raise Problem(
                504,
                "timeout",
                f"No result within {limit:g} s; {became}. Send Prefer: respond-async to start it without waiting.",
                headers={**headers, "Content-Location": self._context.links(request).job(job.job_id)},
                job_id=job.job_id,
            )
        return await self._ended(request, caller, view.job, headers)

    async def _until_ended(self, caller: Caller, job: JobRecord, seconds: float, client: "WaitingClient") -> JobView:
        view = await self._services.followers.until(
            caller, job.job_id, seconds, lambda view: view.job.terminal, watch=client.watch
        )
        return view or JobView(job, None)

    async def _ended(self, request: Request, caller: Caller, job: JobRecord, headers: dict[str, str]) -> Response:
        """Return the end of a job as the response to a waiting request."""
        links = self._context.links(request)
        headers = {**headers, "Content-Location": links.job(job.job_id)}
        if job.status is Status.COMPLETED and job.result_id:
            if job.reused_from is not None:
                headers |= await self._age(caller, job, job.reused_from)
            return await self._found(caller, job, job.result_id, headers)
        if job.status is Status.CANCELED:
            raise Problem(
                409, "canceled", f"The job was canceled: {job.cancel_reason}", headers=headers, job_id=job.job_id
            )
        code = job.error_code or "internal"
        status = 422 if job.retry_hint == "check_input_and_retry" else _STATUS_OF_CODE.get(code, 500)
        raise Problem(
            status,
            code,
            job.error_message or code,
            headers=headers,
            job_id=job.job_id,
            retryable=job.retryable,
            retry_hint=job.retry_hint,
        )

    async def _age(self, caller: Caller, job: JobRecord, origin_id: str) -> dict[str, str]:
        """Return how old a reused result is; nothing where the job that computed it is gone."""
        origin = await self._services.reads.of(caller).job(origin_id)
        if origin is None or origin.job.finished_at is None:
            return {}
        seconds = seconds_between(origin.job.finished_at, max(self._services.reads.now(), job.queued_at))
        return {"Age": str(max(0, int(seconds)))}

    async def _found(self, caller: Caller, job: JobRecord, result_id: str, headers: dict[str, str]) -> Response:
        job_id, reused = job.job_id, msgspec.UNSET if job.reused_from is None else job.reused_from

        async def gone() -> NoReturn:
            message = "The result of this job was removed by retention; retry the job to compute it again."
            raise Problem(410, "expired", message, headers=headers, job_id=job_id)

        def shape(payload: msgspec.Raw) -> SyncResponse:
            return SyncResponse(
                request_id=caller.request_id, result=payload, result_id=result_id, job_id=job_id, reused_from=reused
            )

        source = await self._services.reads.of(caller).source(result_id)
        if source is None:
            await gone()
        return self._context.payload_answer(caller, source, shape, headers=headers, gone=gone)

    async def _job_or_problem(self, request: Request, caller: Caller, submitted: SubmitOutcome) -> JobRecord:
        if isinstance(submitted, Accepted | Replayed):
            return submitted.job
        if isinstance(submitted, KeyReused):
            raise Problem(
                422,
                "idempotency_mismatch",
                "This Idempotency-Key was used with another payload; send a new key.",
                field="Idempotency-Key",
            )
        if isinstance(submitted, QueueFull):
            raise queue_full(submitted)
        return await self._refuse_duplicate(request, caller, submitted)

    async def _refuse_duplicate(self, request: Request, caller: Caller, duplicate: Duplicate) -> JobRecord:
        links = self._context.links(request)
        known = await self._services.reads.of(caller).job(duplicate.job.job_id)
        moment = await self._services.reads.derived_fields(known or JobView(duplicate.job, None))
        raise Problem(
            409,
            "duplicate_job",
            "The same analysis with the same input has not ended yet; follow that job, or set allow_duplicate.",
            headers={"Location": links.job(duplicate.job.job_id), "Retry-After": str(moment.poll_after)},
            job=job_out(duplicate.job, moment, links),
        )


class WaitingClient:
    """The client of a request that waits for its job: the wait ends when the client disconnects."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._follower: Disconnectable | None = None
        self.left = False

    def watch(self, follower: Disconnectable) -> Callable[[], object]:
        """Begin to watch the client."""
        self._follower = follower
        return watch_client(self._request.scope, self._request.receive, self)

    def leave(self) -> None:
        """Record that the client disconnected, and end the wait."""
        self.left = True
        if self._follower is not None:
            self._follower.leave()


class _SynchronousCallers:
    """Counts the requests that wait for each job of a synchronous request: without any, the job is canceled.

    More than one waits where a request is repeated with its Idempotency-Key.
    """

    def __init__(self) -> None:
        self._waiting: Counter[str] = Counter()

    def enter(self, job_id: str, *, first: bool) -> bool:
        """Count a request; return False for a repetition of an asynchronous request, or of one that has ended."""
        if not first and job_id not in self._waiting:
            return False
        self._waiting[job_id] += 1
        return True

    def leave(self, job_id: str) -> bool:
        """Uncount a request, and return whether it was the last."""
        self._waiting[job_id] -= 1
        if self._waiting[job_id]:
            return False
        del self._waiting[job_id]
        return True


def _wants_fresh(request: Request) -> bool:
    """Whether the client accepts no stored result: `Cache-Control: no-cache`, also as `no-store` or `max-age=0`."""
    given = {word.strip().lower() for line in request.headers.getlist("cache-control") for word in line.split(",")}
    return not given.isdisjoint({"no-cache", "no-store", "max-age=0"})


def queue_full(full: QueueFull) -> Problem:
    """Return 429 for a queue of the caller or the analysis, 503 for the queue of the whole server."""
    status = 503 if full.scope == "all" else 429
    return Problem(status, "queue_full", full.reason, headers={"Retry-After": str(full.retry_after)})


def _always_accepted(submission: SubmitRequest) -> SubmitRequest:
    """Allow duplicates: a synchronous request needs a result, not a link to another job."""
    return msgspec.structs.replace(submission, allow_duplicate=True)
