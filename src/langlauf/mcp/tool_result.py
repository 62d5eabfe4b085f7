"""The result of a tool: what a job returned or why it did not, as a model can read it."""

from typing import Any

import msgspec
from starlette.requests import Request

from langlauf.analysis.payload import run_in_thread
from langlauf.api.context import ApiContext
from langlauf.auth.caller import Caller
from langlauf.domain.errors import PayloadGone
from langlauf.domain.job import JobRecord
from langlauf.domain.read_models import JobView
from langlauf.domain.result import SMALL_PAYLOAD, PayloadSource, views_from
from langlauf.domain.state import Status
from langlauf.mcp.job_text import failure_sentence, job_fields, latest_uri, result_uri, status_sentence
from langlauf.mcp.protocol import INTERNAL_ERROR, JOB_KEY, RpcError
from langlauf.mcp.tools import JOB_STATUS, output_type
from langlauf.mcp.view_content import Block, blocks_of, text_block
from langlauf.problems import Problem

#: A result up to this size goes to the model as a whole; of a larger one the summary, and a link.
LARGEST_INLINE = 32_768
#: A result up to this size is read for the tables that views show of it, and where the tool has an output schema.
_LARGEST_READ = 1_048_576
#: Failures of this server or of the code, which the caller's input did not cause.
_INTERNAL_CODES = frozenset({"worker_lost", "internal"})
_MOST_NAMES = 20
_LONGEST_EXCERPT = 2_000


class ToolResults:
    """Builds the results of tools for one caller at a time."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._reads = context.services.reads

    def root(self, request: Request) -> str:
        """Return the root of the pages as an absolute URL: an agent has no address to resolve a path against."""
        public = self._context.settings.public_url
        if public is not None:
            return public.rstrip("/")
        host = request.headers.get("host") or "localhost"
        return f"{request.scope['scheme']}://{host}{request.scope.get('root_path', '').rstrip('/')}"

    async def ended(self, caller: Caller, job: JobRecord, root: str) -> dict[str, Any]:
        """Return the result of a job that has ended; raise `RpcError` for a failure that is not the caller's."""
        if job.status is Status.COMPLETED and job.result_id is not None:
            return await self._completed(caller, job, job.result_id, root)
        if job.status is Status.FAILED and job.error_code in _INTERNAL_CODES:
            raise RpcError(INTERNAL_ERROR, failure_sentence(job), {"job_id": job.job_id, "error": job.error_code})
        if job.status is Status.FAILED:
            text = failure_sentence(job)
        else:
            text = f"The job was canceled by the {job.canceled_by}: {job.cancel_reason}"
        return {"content": [text_block(text), *self._links(job, root)], "isError": True}

    async def running(self, view: JobView, root: str, *, why: str = "") -> dict[str, Any]:
        """Return the result of a call that did not wait for the end: the job goes on."""
        job = view.job
        derived = await self._reads.derived_fields(view)
        text = (
            f"{why}The job {job.job_id} has not ended yet: {status_sentence(job, derived)}. It goes on. Call "
            f'{JOB_STATUS} with {{"job_id": "{job.job_id}"}}, or this tool again with the same arguments, for its '
            f"result; people can follow it at {root}/jobs/{job.job_id}."
        )
        return {"content": [text_block(text), *self._links(job, root)], "_meta": {JOB_KEY: job_fields(view, derived)}}

    def _links(self, job: JobRecord, root: str) -> list[Block]:
        """Return the page of a job that has not completed, and its newest interim result."""
        links = [_link(f"{root}/jobs/{job.job_id}", "job page", "The job in a browser.", "text/html")]
        if job.result_id is not None and job.result_expired_at is None:
            links.append(_link(latest_uri(job.job_id), "interim result", f"Interim result {job.partial_count}."))
        return links

    async def _completed(self, caller: Caller, job: JobRecord, result_id: str, root: str) -> dict[str, Any]:
        reads = self._reads.of(caller)
        found = await reads.result(result_id, latest=False, payload=False)
        source = await reads.source(result_id)
        if found is None or source is None:
            text = "Retention has removed the result of this job; call the tool again to compute it anew."
            return {"content": [text_block(text)], "isError": True}
        payload = await self._payload(source)
        views = await reads.views(result_id)
        analysis = self._context.services.registry.get(job.analysis)
        described = analysis is not None and output_type(analysis) is not None
        summary = found.delivered.snapshot.summary_json

        def build() -> dict[str, Any]:
            value = None if payload is None else msgspec.json.decode(payload)
            page = f"{root}/results/{result_id}"
            small = payload is not None and len(payload) <= LARGEST_INLINE
            first = _as_text(value, payload) if small and payload is not None else _summary(summary, value, source.size)
            links = [
                _link(result_uri(result_id), "result", "The whole result.", size=source.size),
                _link(page, "result page", "The result in a browser, with its charts; permanent.", "text/html"),
            ]
            result: dict[str, Any] = {
                "content": [text_block(first), *blocks_of(views_from(views), value, page), *links]
            }
            if payload is not None and isinstance(value, dict) and (small or described):
                result["structuredContent"] = msgspec.Raw(payload)
            elif described:  # a result without what its schema promises is an error
                result["isError"] = True
            return result

        return await run_in_thread(build) if source.size > SMALL_PAYLOAD else build()

    async def _payload(self, source: PayloadSource) -> bytes | None:
        """Return the payload as JSON text, or None where it is too large to be read here."""
        if source.whole is not None or source.size > _LARGEST_READ:
            return source.whole
        return await read_whole(source)


async def read_whole(source: PayloadSource) -> bytes | None:
    """Return a payload that is stored in pieces; None where it was removed meanwhile."""
    pieces, size = list[bytes](), 0
    try:
        while size < source.size:
            pieces.append(bytes(await source.read(size)))
            size += len(pieces[-1])
    except PayloadGone:
        return None
    return b"".join(pieces)


def refused(problem: Problem) -> dict[str, Any]:
    """Return the result of a call that was not accepted, so that the model reads why, and when to try again."""
    text = problem.message
    after = problem.headers.get("Retry-After")
    if after is not None and "try again" not in text.lower():
        text += f" Try again in {after} s."
    return {"content": [text_block(text)], "isError": True}


def _link(uri: str, name: str, description: str, kind: str = "application/json", size: int | None = None) -> Block:
    link: Block = {"type": "resource_link", "uri": uri, "name": name, "description": description, "mimeType": kind}
    return link if size is None else {**link, "size": size}


def _as_text(value: Any, payload: bytes) -> str:
    return value if isinstance(value, str) else payload.decode()


def _summary(summary: str | None, value: Any, size: int) -> str:
    """Return the summary of a large result, or at least what it holds."""
    lines = [f"The result has {size:,} bytes, too many to show here; the resource below has all of it."]
    if summary is not None and summary != "null":
        lines.append(f"Summary: {summary}")
    elif isinstance(value, dict):
        names = list(value)
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        lines.append(f"It has these members: {', '.join(names[:_MOST_NAMES])}{more}.")
    elif isinstance(value, list):
        lines.append(f"It is a list of {len(value):,} items.")
    elif isinstance(value, str):
        lines.append(f"It begins: {value[:_LONGEST_EXCERPT]}…")
    return "\n\n".join(lines)
