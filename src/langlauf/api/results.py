"""Handlers of results: snapshots, their views, an org's history, and holds against retention."""

from functools import partial
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from langlauf.analysis.payload import LARGE_TEXT, run_in_thread
from langlauf.analysis.schema import read_input
from langlauf.api.context import (
    REVALIDATED,
    ApiContext,
    etag_matches,
    etags_of_caller,
    json_response,
    not_modified,
    tenant_headers,
)
from langlauf.api.operation import PROV_JSON
from langlauf.api.record_schemas import HistoryEntryOut
from langlauf.api.request_schemas import HoldBody
from langlauf.api.requests import (
    choice_parameter,
    int_parameter,
    read_cursor,
    refuse_unknown_parameters,
    text_parameter,
    write_cursor,
)
from langlauf.api.response_schemas import (
    HistoryResponse,
    JobsResponse,
    ProvenanceResponse,
    ResultResponse,
    ViewsResponse,
)
from langlauf.api.sse import prefers
from langlauf.api.wire import job_out, raw_json
from langlauf.auth.caller import Caller
from langlauf.domain.instant import to_datetime, to_text
from langlauf.domain.read_models import HistoryEntry, JobFilter, ResultView
from langlauf.domain.result import ResultGone
from langlauf.problems import Problem, not_found
from langlauf.service.provenance import prov_json

LATEST, REQUESTED = "latest", "requested"
_FARTHEST_OFFSET = 1_000_000


class ResultHandlers:
    """Handlers under `/analyze/results`, and of `/analyze/history`."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._reads = context.services.reads

    async def result(self, request: Request, caller: Caller) -> Response:
        """Return a snapshot: the newest of its job, or exactly this one."""
        refuse_unknown_parameters(request, "view")
        view = choice_parameter(request, "view", (LATEST, REQUESTED)) or LATEST
        known = etags_of_caller(request)
        found = await self._existing(request, caller, view)
        etag = _etag(found)
        if known is not None and etag_matches(known, etag):
            return not_modified(etag)
        job, delivered = found.job, found.delivered.snapshot
        source = await self._reads.of(caller).source(delivered.result_id)
        if source is None:
            # Retention may have removed it since the row was read: then the row says so now.
            await self._existing(request, caller, view)
            raise not_found()

        def shape(payload: msgspec.Raw) -> ResultResponse:
            return ResultResponse(
                request_id=caller.request_id,
                result_id=delivered.result_id,
                job_id=job.job_id,
                job_status=job.status,
                cancel_reason=job.cancel_reason,
                error_code=job.error_code,
                result_kind=delivered.result_kind,
                result_seq=delivered.result_seq,
                created_at=to_datetime(delivered.created_at),
                result=payload,
                summary=raw_json(delivered.summary_json),
                requested_result_id=found.requested.result_id,
                requested_result_kind=found.requested.result_kind,
                projection_mode="latest" if view == LATEST else "requested",
            )

        return self._context.payload_answer(
            caller,
            source,
            shape,
            headers={"ETag": etag},
            cache=REVALIDATED,
            gone=partial(self._existing, request, caller, view),
        )

    async def views(self, request: Request, caller: Caller) -> Response:
        """Return the views of a snapshot, without reading its payload."""
        refuse_unknown_parameters(request, "view")
        view = choice_parameter(request, "view", (LATEST, REQUESTED)) or LATEST
        found = await self._existing(request, caller, view)
        etag = _etag(found)
        known = etags_of_caller(request)
        if known is not None and etag_matches(known, etag):
            return not_modified(etag)
        delivered = found.delivered.snapshot
        body = ViewsResponse(
            request_id=caller.request_id,
            result_id=delivered.result_id,
            job_id=found.job.job_id,
            result_kind=delivered.result_kind,
            result_seq=delivered.result_seq,
            views=raw_json(await self._reads.of(caller).views(delivered.result_id) or "[]"),
        )
        return json_response(body, headers={"ETag": etag}, cache=REVALIDATED)

    async def provenance(self, request: Request, caller: Caller) -> Response:
        """Return how a snapshot came about; it outlives the payload."""
        refuse_unknown_parameters(request, "format")
        form = choice_parameter(request, "format", ("json", "prov"))
        provenances = self._context.services.provenances
        found = await provenances.of(self._reads.of(caller), request.path_params["result_id"])
        if found is None:
            raise not_found()
        if prefers(request, PROV_JSON):
            document = msgspec.json.encode(prov_json(found))
            return Response(document, media_type=PROV_JSON, headers=tenant_headers(None, "no-store"))
        shown = prov_json(found) if form == "prov" else found
        return json_response(ProvenanceResponse(request_id=caller.request_id, provenance=shown))

    async def _existing(self, request: Request, caller: Caller, view: str) -> ResultView:
        """Return the snapshot to deliver, without its payload; raise 404 or 410."""
        result_id = request.path_params["result_id"]
        found = await self._reads.of(caller).result(result_id, latest=view == LATEST, payload=False)
        if found is None:
            raise not_found()
        if found.delivered.snapshot.removed_at is not None:
            when = found.delivered.snapshot.removed_at
            message = f"This result was removed by retention at {to_text(when)}; retry its job to compute it again."
            raise Problem(410, "expired", message, job_id=found.job.job_id, expired_at=to_datetime(when))
        return found

    async def history(self, request: Request, caller: Caller) -> Response:
        """List the org's jobs with a result, newest first."""
        refuse_unknown_parameters(request, "limit", "offset")
        limit = int_parameter(request, "limit", default=50, lowest=1, highest=200)
        offset = int_parameter(request, "offset", default=0, lowest=0, highest=_FARTHEST_OFFSET)
        entries, total = await self._reads.of(caller).history(limit=limit, offset=offset)
        history = await self._entries(entries)
        body = HistoryResponse(request_id=caller.request_id, history=history, total=total, limit=limit, offset=offset)
        return json_response(body)

    async def _entries(self, entries: list[HistoryEntry]) -> list[HistoryEntryOut]:
        """Convert entries; large inputs are decoded in a thread."""

        def out() -> list[HistoryEntryOut]:
            return [_entry_out(entry) for entry in entries]

        return await run_in_thread(out) if sum(len(entry.payload) for entry in entries) > LARGE_TEXT else out()


def _etag(found: ResultView) -> str:
    """Return the ETag. A snapshot never changes, but the status of its job in the response does.

    It is weak because each response has its own request id, and revalidated because retention removes results.
    """
    return f'W/"{found.delivered.snapshot.result_id}-{found.job.status}"'


def _entry_out(entry: HistoryEntry) -> HistoryEntryOut:
    values: dict[str, Any] = msgspec.json.decode(entry.payload)
    return HistoryEntryOut(
        result_id=entry.result_id,
        job_id=entry.job_id,
        created_at=to_datetime(entry.created_at),
        query=_text(values.get("query")),
        intelligence_mode=_text(values.get("intelligence_mode")),
        status=entry.status,
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


#: Marks the cursors of this list: no other list can be filtered by this text.
_LIST = JobFilter(text="\0held")


def expired(gone: ResultGone) -> Problem:
    """Return the 410 for a result that retention has removed."""
    message = f"This result was removed by retention at {to_text(gone.removed_at)}; it can no longer be held."
    return Problem(410, "expired", message, job_id=gone.job_id, expired_at=to_datetime(gone.removed_at))


class HoldHandlers:
    """Handlers of `/analyze/results/{result_id}/hold`, and of `/analyze/held`."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._holds = context.services.holds

    async def hold(self, request: Request, caller: Caller) -> Response:
        """Hold a result, with its job. Repeating it keeps the first holder."""
        refuse_unknown_parameters(request)
        sent: HoldBody = read_input(HoldBody, await self._context.body(request, optional=True))
        done = await self._holds.hold(caller, request.path_params["result_id"], sent.reason)
        if done is None:
            raise not_found()
        if isinstance(done, ResultGone):
            raise expired(done)
        return await self._context.job_answer(request, caller, done, 200)

    async def release(self, request: Request, caller: Caller) -> Response:
        """Release a result: retention applies again."""
        refuse_unknown_parameters(request)
        done = await self._holds.release(caller, request.path_params["result_id"])
        if done is None:
            raise not_found()
        return await self._context.job_answer(request, caller, done, 200)

    async def list(self, request: Request, caller: Caller) -> Response:
        """List the jobs whose results the org holds."""
        refuse_unknown_parameters(request, "limit", "cursor")
        limit = int_parameter(request, "limit", default=50, lowest=1, highest=200)
        cursor = text_parameter(request, "cursor")
        before = read_cursor(cursor, caller.org_id, _LIST) if cursor else None
        views = await self._holds.held(caller, before, limit)
        links, reads = self._context.links(request), self._context.services.reads
        jobs = [job_out(view.job, await reads.derived_fields(view), links) for view in views]
        last = views[-1].job if len(views) == limit else None
        more = None if last is None else write_cursor((last.held_at or 0, last.job_id), caller.org_id, _LIST)
        headers = {"Link": f'<{links.base}/held?limit={limit}&cursor={more}>; rel="next"'} if more else {}
        return json_response(JobsResponse(request_id=caller.request_id, jobs=jobs, next_cursor=more), headers=headers)
