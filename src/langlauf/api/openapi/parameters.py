"""Every parameter of the API: where it stands, what it may be, what it does. Operations name them by key."""

from langlauf.api.openapi.schema import Document
from langlauf.domain.delivery import CHANNELS, DELIVERY_STATUSES
from langlauf.domain.event import OutboundType
from langlauf.domain.state import Status

_NAME = {"type": "string", "pattern": "^[A-Za-z0-9_.:-]{1,128}$"}
_ANY = {"type": "string"}
#: NUL is refused everywhere; the empty text counts as not given.
_TEXT = {"type": "string", "maxLength": 256, "pattern": "^[^\\u0000]*$"}
#: Bare, or quoted with a backslash before a quote or a backslash; a bare one does not begin with a quote.
_KEY = {
    "type": "string",
    "pattern": r'^([!#-~][!-~]{0,254}|"([!#-\[\]-~]|\\["\\]){1,255}")$',
    "minLength": 1,
    "maxLength": 512,
}


#: A kind of outbound event by its full name, or its last word.
_KIND = f"(api\\.analyze\\.job\\.)?({'|'.join(kind.rpartition('.')[2] for kind in OutboundType)})"


def _number(lowest: int, highest: int, default: int) -> Document:
    return {"type": "integer", "minimum": lowest, "maximum": highest, "default": default}


_PARAMETERS: dict[str, tuple[str, Document, str]] = {
    "job_id": (
        "path",
        {"type": "string", "minLength": 1, "pattern": "^[^/]+$"},
        "The id of a job: a UUID, or what an imported store called it.",
    ),
    "result_id": (
        "path",
        {"type": "string", "minLength": 1, "pattern": "^[^/]+$"},
        "The id of a snapshot: a UUID, or what an imported store called it.",
    ),
    "key_id": (
        "path",
        {"type": "string", "minLength": 1, "pattern": "^[^/]+$"},
        "The id of a key, which is how its text begins.",
    ),
    "endpoint_id": ("path", {"type": "string", "minLength": 1, "pattern": "^[^/]+$"}, "The id of an endpoint."),
    "notification_id": ("path", {"type": "string", "minLength": 1, "pattern": "^[^/]+$"}, "The id of a delivery."),
    "X-Org-Id": ("header", _NAME, "The org; without it the key's, else `default-org`."),
    "X-Tenant-Id": ("header", _NAME, "Another name for `X-Org-Id`; where both are given they must be equal."),
    "X-User-Id": ("header", _NAME, "Who asked, kept with the job."),
    "X-Request-Id": (
        "header",
        _ANY,
        "An id of the caller's, sent back and kept: 1 to 128 characters `A-Z a-z 0-9 _ . : -`. Another is ignored.",
    ),
    "traceparent": (
        "header",
        _ANY,
        "The trace that the job shall belong to (W3C trace context). One that cannot be read is as none.",
    ),
    "tracestate": ("header", _ANY, "What tracing systems keep for themselves, passed on with `traceparent`."),
    "Prefer": ("header", _ANY, "`respond-async`, and with it `wait=N` seconds. What is not known is ignored."),
    "Idempotency-Key": (
        "header",
        _KEY,
        "The same key and payload give the same job again: 1 to 255 visible ASCII characters, bare or quoted.",
    ),
    "If-None-Match": ("header", _ANY, "The ETag of a known answer, or a list of them."),
    "Last-Event-ID": (
        "header",
        _ANY,
        "Of a stream: only events past this number, whatever `after` says; a page does not look at it.",
    ),
    "feed.Last-Event-ID": (
        "header",
        _ANY,
        "Of a stream: the place to go on from, whatever `after` says; a page does not look at it.",
    ),
    "feed.after": (
        "query",
        {"type": "string", "maxLength": 1_024, "pattern": "^[A-Za-z0-9_-]*$", "default": "start"},
        "Where to go on: `next_after` of a page, or the `id` of a streamed event; `start` (the oldest) or `latest`.",
    ),
    "feed.types": (
        "query",
        {"type": "string", "maxLength": 512, "pattern": f"^({_KIND}(,{_KIND})*)?$", "examples": ["completed,failed"]},
        "Only these kinds, with commas between: `api.analyze.job.completed`, or its last word.",
    ),
    "feed.limit": ("query", _number(1, 200, 50), "How many at the most; not for a stream."),
    "feed.wait": (
        "query",
        _number(0, 30, 0),
        "Hold the answer until there is an event, at most so many seconds; not for a stream.",
    ),
    "access_token": ("query", {"type": "string"}, "A token for this one job, where a header cannot be sent."),
    "wait": ("query", _number(0, 30, 0), "Hold the answer until the job changes, at most so many seconds."),
    "view": (
        "query",
        {"type": "string", "enum": ["latest", "requested"], "default": "latest"},
        "The newest snapshot of the job, or exactly this one.",
    ),
    "limit": ("query", _number(1, 200, 50), "How many at the most."),
    "events.limit": ("query", _number(1, 1_000, 100), "How many at the most; not for a stream."),
    "offset": ("query", _number(0, 1_000_000, 0), "How many to pass over."),
    "after": (
        "query",
        {"type": "integer", "minimum": 0, "default": 0},
        "Only events past this number, which must not lie beyond the end of the log.",
    ),
    "for": ("query", {"type": "string", "enum": ["reads"]}, "`reads`: ready to be read is enough."),
    "unread": ("query", {"type": "string", "enum": ["true", "false"]}, "`true`: only messages that nobody has read."),
    "channel": ("query", {"type": "string", "enum": list(CHANNELS)}, "Only messages of this channel."),
    "status": ("query", {"type": "string", "enum": list(Status)}, "Only jobs in this state."),
    "deliveries.status": (
        "query",
        {"type": "string", "enum": list(DELIVERY_STATUSES)},
        "Only deliveries that have come so far.",
    ),
    "endpoint": ("query", _TEXT, "Only deliveries to this endpoint, by its id."),
    "job": ("query", _TEXT, "Only deliveries about this job, by its id."),
    "analysis": ("query", _TEXT, "Only jobs of this analysis."),
    "q": ("query", _TEXT, "Only jobs whose input or id has this text."),
    "cursor": ("query", _TEXT, "Where the page starts: `next_cursor` of the page before, and nothing else."),
}


def parameter(key: str) -> Document:
    """A parameter by its key; `events.limit` is the `limit` of one operation."""
    where, schema, text = _PARAMETERS[key]
    return {
        "name": key.rpartition(".")[2],
        "in": where,
        "required": where == "path",
        "schema": schema,
        "description": text,
    }


_SECONDS = {"type": "integer", "minimum": 0}
_HEADERS: dict[str, tuple[Document, str]] = {
    "X-Request-Id": (
        {"type": "string", "pattern": "^[A-Za-z0-9_.:-]{1,128}$"},
        "The id of the request: the caller's own where it sent a usable one. It finds the request in the log.",
    ),
    "X-Content-Type-Options": ({"const": "nosniff"}, "The content type is meant."),
    "Cache-Control": (_ANY, "Tenant data is `no-store` or `private, no-cache`; an error is `no-store`."),
    "Vary": (_ANY, "What selects the answer."),
    "Location": ({"type": "string", "format": "uri-reference"}, "The job."),
    "Content-Location": ({"type": "string", "format": "uri-reference"}, "The job that the answer tells of."),
    "Retry-After": (_SECONDS, "After so many seconds it is worth asking again."),
    "ETag": ({"type": "string", "pattern": '^W/"[^"]+"$'}, "Changes when the answer does; for `If-None-Match`."),
    "Link": (_ANY, 'The next page, as `<…>; rel="next"`; not there on the last one.'),
    "Preference-Applied": (_ANY, "What of `Prefer` was honoured; only there where something was."),
    "Idempotent-Replayed": ({"const": "true"}, "The job was made by an earlier request with the same key."),
    "Allow": (_ANY, "The methods that this address knows."),
    "WWW-Authenticate": (_ANY, "How to show a key."),
    "Accept": (_ANY, "The media type that would have been taken."),
    "Accept-Encoding": (_ANY, "The content coding that would have been taken."),
    "RateLimit": (_ANY, "What is left: `r` requests within `t` seconds; only there where a rate limit is set."),
    "RateLimit-Policy": (_ANY, "The limit: `q` requests within `w` seconds; only there where one is set."),
}
#: On every response, whatever it is.
ALWAYS = ("X-Request-Id", "X-Content-Type-Options")
#: On whatever depends on who asks.
GUARDED = ("Cache-Control", "Vary")


def header_components() -> Document:
    """All headers: `Name` where it may be there, `Name.always` where it must."""
    made: Document = {}
    for name, (schema, text) in _HEADERS.items():
        made[name] = {"description": text, "schema": schema}
        made[f"{name}.always"] = {"description": text, "required": True, "schema": schema}
    return made


def headers(*always: str, maybe: tuple[str, ...] = ()) -> Document:
    """References for one answer."""
    names = {name: f"{name}.always" for name in (*ALWAYS, *always)} | {name: name for name in maybe}
    return {name: {"$ref": f"#/components/headers/{component}"} for name, component in names.items()}
