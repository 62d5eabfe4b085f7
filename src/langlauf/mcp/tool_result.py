"""The result of a tool as a model can read it: what a job returned, why it did not, how it is doing, and its views."""

import base64
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from starlette.requests import Request

from langlauf.analysis.payload import run_in_thread
from langlauf.api.context import ApiContext
from langlauf.auth.caller import Caller
from langlauf.domain.errors import PayloadGone
from langlauf.domain.instant import to_datetime, to_text
from langlauf.domain.job import JobRecord, Phase
from langlauf.domain.read_models import JobView
from langlauf.domain.result import (
    SMALL_PAYLOAD,
    AnyView,
    ChartView,
    FileView,
    ImageView,
    MapView,
    MarkdownView,
    PayloadSource,
    TableView,
    views_from,
)
from langlauf.domain.state import Status
from langlauf.domain.text import pointer_parts
from langlauf.mcp.protocol import INTERNAL_ERROR, JOB_KEY, RpcError
from langlauf.mcp.tools import JOB_STATUS, output_type
from langlauf.problems import Problem
from langlauf.service.read import DerivedFields

# -- a job in words ----------------------------------------------------------------------------------------------------

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_HINTS = {
    "check_input_and_retry": "Check the input, then call the tool again.",
    "retry_with_backoff": "Try again later.",
}


def latest_uri(job_id: str) -> str:
    """Return the URI of a job's newest snapshot."""
    return f"langlauf:///jobs/{job_id}/latest"


def result_uri(result_id: str) -> str:
    """Return the URI of one snapshot."""
    return f"langlauf:///results/{result_id}"


def status_sentence(job: JobRecord, derived: DerivedFields) -> str:
    """Return how a job is doing: `Reading year 3 · 40 % · about 3 min left · interim result 3`."""
    match job.status:
        case Status.COMPLETED:
            return "Completed"
        case Status.FAILED:
            return failure_sentence(job)
        case Status.CANCELED:
            return f"Canceled: {job.cancel_reason}"
    if derived.phase is Phase.SCHEDULED and job.run_at is not None:
        return f"Starts at {to_datetime(job.run_at):%Y-%m-%dT%H:%M:%SZ}"
    activity = _ACTIVITIES.get(derived.phase) or job.step or "Running"
    words = [activity, f"{job.progress_percent} %" if job.started_at is not None else ""]
    if derived.estimated_seconds is not None and derived.phase is not Phase.CANCELING:
        words.append(f"about {_duration(derived.estimated_seconds)} left")
    if job.partial_count:
        words.append(f"interim result {job.partial_count}")
    return " · ".join(filter(None, words))


_ACTIVITIES = {
    Phase.CANCELING: "Stopping",
    Phase.BACKOFF: "Waiting for the next attempt",
    Phase.WAITING: "Waiting for a worker",
    Phase.PAUSED: "Paused by the operator",
}


def _duration(seconds: float) -> str:
    if seconds < _MINUTE:
        return f"{max(1, round(seconds))} s"
    for size, unit, larger in ((_MINUTE, "min", _HOUR), (_HOUR, "h", _DAY)):
        if seconds < larger:
            return f"{round(seconds / size)} {unit}"
    return f"{round(seconds / _DAY)} d"


def failure_sentence(job: JobRecord) -> str:
    """Return why a job failed, and what to do."""
    text = job.error_message or "The analysis failed"
    hint = _HINTS.get(job.retry_hint or "", "")
    return f"{text.rstrip('.')} ({job.error_code}). {hint}".rstrip()


def job_fields(view: JobView, derived: DerivedFields) -> dict[str, Any]:
    """Return the same for programs."""
    job = view.job
    fields: dict[str, Any] = {
        "job_id": job.job_id,
        "analysis": job.analysis,
        "status": job.status,
        "phase": derived.phase,
        "progress_percent": job.progress_percent,
        "step": job.step,
        "estimated_seconds": derived.estimated_seconds,
        "partial_count": job.partial_count,
        "updated_at": to_text(job.updated_at),
    }
    if job.run_at is not None:
        fields["run_at"] = to_text(job.run_at)
    return fields if job.result_id is None else {**fields, "latest": latest_uri(job.job_id)}


# -- views -------------------------------------------------------------------------------------------------------------

#: A model needs an excerpt; all rows are in the result.
MOST_ROWS, MOST_COLUMNS, LONGEST_CELL = 20, 10, 80
_LONGEST_TEXT = 16_384
#: All pictures and files of a result, in bytes.
_LARGEST_MEDIA = 1_048_576
_TEXT_FILES = ("text/", "application/json", "application/geo+json", "application/xml")
Block = dict[str, Any]


def text_block(text: str) -> Block:
    """Return a text as content."""
    return {"type": "text", "text": text}


def blocks_of(views: Sequence[AnyView], payload: Any, address: str) -> list[Block]:
    """Return the views as content. `payload` is the result, or None where it is too large; `address` is its page."""
    blocks: list[Block] = []
    room = _LARGEST_MEDIA
    for number, view in enumerate(views, 1):
        if isinstance(view, ImageView | FileView):
            if len(view.data) <= room:
                room -= len(view.data)
                blocks.append(_media(view, f"{address}/views/{number}"))
            else:
                blocks.append(text_block(f"{_name(view)}: {len(view.data):,} bytes, at {address}/views/{number}"))
        elif text := _text(view, payload):
            shown = text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"
            blocks.append(text_block(f"### {view.title}\n\n{shown}" if view.title else shown))
    return blocks


def _name(view: ImageView | FileView) -> str:
    return view.title or (view.name if isinstance(view, FileView) else view.alt) or view.media_type


def _media(view: ImageView | FileView, address: str) -> Block:
    data, kind = base64.b64encode(view.data).decode(), view.media_type.partition(";")[0]
    if isinstance(view, ImageView):
        return {"type": "image", "data": data, "mimeType": kind}
    if kind.startswith("audio/"):
        return {"type": "audio", "data": data, "mimeType": kind}
    content: dict[str, Any] = {"uri": address, "mimeType": kind}
    if kind.startswith(_TEXT_FILES):
        content["text"] = view.data.decode("utf-8", "replace")
    else:
        content["blob"] = data
    return {"type": "resource", "resource": content}


def _text(view: AnyView, payload: Any) -> str:
    match view:
        case TableView():
            rows = view.rows if view.rows is not None else _at(payload, view.at)
            return markdown_table(rows, [(one.name, _heading(one)) for one in view.columns]) if rows else ""
        case MarkdownView():
            return view.text
        case ChartView():
            return f"Chart: {view.summary}" if view.summary else ""
        case MapView():
            found = view.geojson if view.geojson is not None else _at(payload, view.at)
            features = found.get("features") if isinstance(found, dict) else None
            return f"Map with {len(features):,} features." if isinstance(features, list) else ""
        case _:
            return ""


def _heading(column: Any) -> str:
    title = column.title or column.name
    return f"{title} ({column.unit})" if column.unit else title


def _at(payload: Any, pointer: str | None) -> Any:
    """Return what a JSON pointer finds in the result; None where there is nothing."""
    found = payload
    for part in pointer_parts(pointer or ""):
        if isinstance(found, dict):
            found = found.get(part)
        elif isinstance(found, list) and part.isascii() and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        else:
            return None
    return found


def markdown_table(rows: Any, columns: Sequence[tuple[str, str]] = ()) -> str:
    """Return the first rows of a table, objects by field or lists by position, and how many more there are."""
    if not isinstance(rows, list):
        return ""
    listed = rows[:MOST_ROWS]
    chosen = list(columns) or [(name, name) for name in _names(listed)]
    if not chosen or not listed:
        return ""
    shown = chosen[:MOST_COLUMNS]
    lines = [_line(title for _, title in shown), _line("---" for _ in shown)]
    names = [name for name, _ in chosen]
    lines += [_line(_cell(row, name, names.index(name)) for name, _ in shown) for row in listed]
    left = [f"{len(rows) - len(listed):,} more rows"] if len(rows) > len(listed) else []
    left += [f"{len(chosen) - len(shown)} more columns"] if len(chosen) > len(shown) else []
    return "\n".join(lines) + (f"\n\n… {' and '.join(left)} in the result." if left else "")


def _names(rows: Iterable[Any]) -> list[str]:
    """Return the names of fields in the order of their first occurrence; positions where rows are lists."""
    names: dict[str, None] = {}
    for row in rows:
        if isinstance(row, dict):
            names.update(dict.fromkeys(row))
        elif isinstance(row, list):
            names.update(dict.fromkeys(map(str, range(1, len(row) + 1))))
    return list(names)


def _cell(row: Any, name: str, position: int) -> str:
    if isinstance(row, dict):
        value = row.get(name)
    else:
        value = row[position] if isinstance(row, list) and position < len(row) else None
    return "" if value is None else str(value)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(map(_clean, cells)) + " |"


def _clean(cell: str) -> str:
    flat = " ".join(cell.replace("|", "\\|").split())
    return flat if len(flat) <= LONGEST_CELL else flat[: LONGEST_CELL - 1] + "…"


# -- results -----------------------------------------------------------------------------------------------------------

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
