"""Resources: snapshots of jobs, each under a URI, the newest of a job, and the list of those after a number."""

import re
from typing import Any, NamedTuple

import msgspec
from starlette.requests import Request

from langlauf.analysis.payload import run_in_thread
from langlauf.api.context import ApiContext
from langlauf.api.requests import read_cursor, write_cursor
from langlauf.auth.caller import Caller
from langlauf.domain.instant import to_text
from langlauf.domain.job import JobRecord
from langlauf.domain.read_models import JobFilter, JobView
from langlauf.domain.result import SMALL_PAYLOAD, Snapshot
from langlauf.mcp.protocol import LEGACY_RESOURCE_NOT_FOUND, SNAPSHOT_KEY, RpcError, RpcRequest, invalid_params
from langlauf.mcp.tool_result import latest_uri, read_whole, result_uri
from langlauf.problems import Problem

_URI = re.compile(
    r"langlauf:///(?:jobs/(?P<job>[^/?#]{1,128})/(?:(?P<latest>latest)|results(?:\?after=(?P<after>[0-9]{1,9}))?)"
    r"|results/(?P<result>[^/?#]{1,128}))"
)
#: A larger result is downloaded from the API, in pieces.
_LARGEST_READ = 8 * 1_048_576
_PAGE = 50
#: Marks the cursors of this list: no other list can be filtered by this text.
_LIST = JobFilter(text="\0resources")
#: A snapshot never changes, but retention may remove it.
_SNAPSHOT_MILLISECONDS, _LIST_MILLISECONDS = 60_000, 300_000
_JSON = "application/json"
_TEMPLATES = [
    {
        "uriTemplate": latest_uri("{job_id}"),
        "name": "latest",
        "title": "Newest result of a job",
        "description": "The final result of a job, or its newest interim result. A subscription tells of each new one.",
        "mimeType": _JSON,
    },
    {
        "uriTemplate": "langlauf:///jobs/{job_id}/results{?after}",
        "name": "results",
        "title": "Results of a job",
        "description": (
            "The interim results and the final one, by number, after the number `after`. A subscription names each of "
            "them once, in order: first those that exist, then new ones."
        ),
        "mimeType": _JSON,
    },
    {
        "uriTemplate": result_uri("{result_id}"),
        "name": "result",
        "title": "One result",
        "description": "One result, interim or final. It never changes.",
        "mimeType": _JSON,
    },
]


class ResourceAddress(NamedTuple):
    """What a URI names: one snapshot, the newest of a job, or those of a job after a number."""

    uri: str
    job_id: str | None
    result_id: str | None
    #: None for the newest snapshot
    after: int | None


def parse_uri(uri: str) -> ResourceAddress | None:
    """Return what a URI names; None where it is none of ours."""
    match = _URI.fullmatch(uri)
    if match is None:
        return None
    after = None if match["latest"] or match["result"] else int(match["after"] or 0)
    return ResourceAddress(uri, match["job"], match["result"], after)


class Resources:
    """Lists and reads resources."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._reads = context.services.reads

    async def templates(self, _: Request, __: RpcRequest, ___: Caller) -> dict[str, Any]:
        """Return the kinds of URIs."""
        return {"resourceTemplates": _TEMPLATES, "ttlMs": _LIST_MILLISECONDS, "cacheScope": "public"}

    async def list(self, _: Request, rpc: RpcRequest, caller: Caller) -> dict[str, Any]:
        """Return the newest results of the org, one per job."""
        which = JobFilter(limit=_PAGE, before=_position(rpc.params.get("cursor"), caller))
        page = await self._reads.of(caller).jobs(which)
        found: dict[str, Any] = {
            "resources": [_listed(view, view.job.result_id) for view in page.views if _has_result(view.job)],
            "ttlMs": 0,
            "cacheScope": "private",
        }
        return found if page.after is None else {**found, "nextCursor": write_cursor(page.after, caller.org_id, _LIST)}

    async def read(self, request: Request, rpc: RpcRequest, caller: Caller) -> dict[str, Any]:
        """Return the content of a resource."""
        address = parse_uri(rpc.text("uri"))
        if address is None:
            raise _unknown(rpc)
        result_id, ttl = address.result_id, _SNAPSHOT_MILLISECONDS
        if address.job_id is not None:
            view = await self._reads.of(caller).job(address.job_id)
            if view is None:
                raise _unknown(rpc)
            if address.after is not None:
                return _contents(address.uri, await self._snapshots(caller, view.job, address.after), 0)
            if view.job.result_id is None:
                return {"contents": [], "ttlMs": 0, "cacheScope": "private"}
            result_id, ttl = view.job.result_id, 0
        return await self._snapshot(request, rpc, caller, result_id or "", ttl)

    async def _snapshots(self, caller: Caller, job: JobRecord, after: int) -> bytes:
        found = [one for one in await self._reads.of(caller).results(job.job_id) if one.result_seq > after]
        return msgspec.json.encode([{"uri": result_uri(one.result_id), **snapshot_fields(one)} for one in found])

    async def _snapshot(
        self, request: Request, rpc: RpcRequest, caller: Caller, result_id: str, ttl: int
    ) -> dict[str, Any]:
        reads = self._reads.of(caller)
        found = await reads.result(result_id, latest=False, payload=False)
        if found is None:
            raise _unknown(rpc)
        snapshot = found.delivered.snapshot
        source = await reads.source(result_id) if snapshot.removed_at is None else None
        if source is None:
            raise _unknown(rpc, "Retention has removed this result.")
        if source.size > _LARGEST_READ:
            where = self._context.links(request).result(result_id)
            message = f"This result has {source.size:,} bytes, too many to send here; download it from {where}."
            raise _unknown(rpc, message)
        payload = source.whole or await read_whole(source)
        if payload is None:
            raise _unknown(rpc, "Retention has removed this result.")
        content = payload

        def build() -> dict[str, Any]:
            return _contents(rpc.text("uri"), content, ttl, snapshot_fields(snapshot, found.job))

        return await run_in_thread(build) if source.size > SMALL_PAYLOAD else build()


def snapshot_fields(snapshot: Snapshot, job: JobRecord | None = None) -> dict[str, Any]:
    """Return what a program wants to know of a snapshot."""
    fields = {
        "result_id": snapshot.result_id,
        "job_id": snapshot.job_id,
        "result_kind": snapshot.result_kind,
        "result_seq": snapshot.result_seq,
        "created_at": to_text(snapshot.created_at),
    }
    return fields if job is None else {**fields, "job_status": job.status}


def _contents(uri: str, payload: bytes, ttl: int, about: dict[str, Any] | None = None) -> dict[str, Any]:
    content: dict[str, Any] = {"uri": uri, "mimeType": _JSON, "text": payload.decode()}
    if about is not None:
        content["_meta"] = {SNAPSHOT_KEY: about}
    return {"contents": [content], "ttlMs": ttl, "cacheScope": "private"}


def _has_result(job: JobRecord) -> bool:
    return job.result_id is not None and job.result_expired_at is None


def _listed(view: JobView, result_id: str | None) -> dict[str, Any]:
    job = view.job
    return {
        "uri": result_uri(result_id or ""),
        "name": f"{job.analysis} {job.job_id}",
        "title": job.label or job.analysis,
        "description": f"Result of {job.analysis}, {job.status} at {to_text(job.finished_at or job.updated_at)}.",
        "mimeType": _JSON,
    }


def _position(cursor: Any, caller: Caller) -> tuple[int, str] | None:
    if cursor is None:
        return None
    if not isinstance(cursor, str):
        raise invalid_params("params.cursor must be a text.")
    try:
        return read_cursor(cursor, caller.org_id, _LIST)
    except Problem as problem:
        raise invalid_params(problem.message) from None


def _unknown(rpc: RpcRequest, message: str = "There is no such resource, or it is not yours to see.") -> RpcError:
    data = {"uri": rpc.text("uri")}
    return RpcError(LEGACY_RESOURCE_NOT_FOUND, message, data) if rpc.legacy else invalid_params(message, data)
