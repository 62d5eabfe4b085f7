"""Components of the document: JSON schemas of structs with examples that fit them, parameters and response headers."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from langlauf.domain.delivery import CHANNELS, DELIVERY_STATUSES
from langlauf.domain.event import OutboundType
from langlauf.domain.state import Status
from langlauf.domain.text import LARGEST_INTEGER, SMALLEST_INTEGER

# -- schemas -----------------------------------------------------------------------------------------------------------

Document = dict[str, Any]
Struct = type[msgspec.Struct]
_REF = "#/components/schemas/{name}"
JSON = "application/json"
PROBLEM_JSON = "application/problem+json"


def ref(kind: Struct | str) -> Document:
    """Return a reference to a schema by its struct or name."""
    return {"$ref": _REF.format(name=kind if isinstance(kind, str) else kind.__name__)}


def json_content(schema: Document, examples: Document | None = None, media: str = JSON) -> Document:
    """Return the content of one media type."""
    described: Document = {"schema": schema}
    if examples:
        described["examples"] = examples
    return {media: described}


def output_schemas(kinds: Iterable[Struct]) -> Document:
    """Return the schemas of responses. A field with a default is always sent; one that may be unset is optional."""
    kinds = list(kinds)
    schemas = _components(kinds)
    for kind in _reachable(kinds):
        schema = schemas[kind.__name__]
        unset = {field.encode_name for field in msgspec.structs.fields(kind) if field.default is msgspec.UNSET}
        schema["required"] = [name for name in schema["properties"] if name not in unset]
        for field in schema["properties"].values():
            field.pop("default", None)
    return schemas


def input_schemas(kinds: Iterable[Struct]) -> Document:
    """Return the schemas of requests: integers within the range that every JSON parser keeps exact."""
    schemas = _components(kinds)
    for schema in schemas.values():
        _bound_integers(schema)
    return schemas


def _components(kinds: Iterable[Struct]) -> Document:
    return dict(msgspec.json.schema_components(kinds, ref_template=_REF)[1])


def _reachable(kinds: Iterable[Struct]) -> list[Struct]:
    """Return these structs and those nested in them."""
    found: dict[Struct, None] = {}
    waiting: list[Any] = list(msgspec.inspect.multi_type_info(kinds))
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, msgspec.inspect.StructType):
            if kind.cls in found:
                continue
            found[kind.cls] = None
            waiting += [field.type for field in kind.fields]
        else:
            waiting += _inside(kind)
    return list(found)


def _inside(kind: Any) -> list[Any]:
    if isinstance(kind, msgspec.inspect.UnionType):
        return list(kind.types)
    if isinstance(kind, msgspec.inspect.Metadata):
        return [kind.type]
    return [kind.item_type] if isinstance(kind, msgspec.inspect.ListType) else []


def _bound_integers(schema: Any) -> None:
    """Bound every integer in a schema."""
    if isinstance(schema, Mapping):
        if schema.get("type") == "integer":
            _bound(schema)
        for value in schema.values():
            _bound_integers(value)
    elif isinstance(schema, list):
        for value in schema:
            _bound_integers(value)


def _bound(schema: Any) -> None:
    if "minimum" not in schema and "exclusiveMinimum" not in schema:
        schema["minimum"] = SMALLEST_INTEGER
    if "maximum" not in schema and "exclusiveMaximum" not in schema:
        schema["maximum"] = LARGEST_INTEGER


Schema = Mapping[str, Any]
_BY_TYPE: Mapping[str, Any] = {"string": "example", "boolean": True, "array": [], "object": {}, "null": None}


def ref_name(schema: Schema) -> str | None:
    """Return the name of the referenced schema."""
    ref = schema.get("$ref")
    return ref.rpartition("/")[2] if isinstance(ref, str) else None


def example_of(schema: Schema, components: Mapping[str, Schema], inside: frozenset[str] = frozenset()) -> Any:
    """Return a valid value: the author's own example, else one derived from the schema, else one of the type."""
    given = [*schema.get("examples", ()), *(schema[word] for word in ("default", "const") if word in schema)]
    given += schema.get("enum", ())
    if given:
        return given[0]
    if name := ref_name(schema):
        # A recursive type ends here.
        return None if name in inside else example_of(components.get(name, {}), components, inside | {name})
    if alternatives := schema.get("anyOf") or schema.get("oneOf"):
        return example_of(alternatives[0], components, inside)
    return _of_type(schema, components, inside)


def _of_type(schema: Schema, components: Mapping[str, Schema], inside: frozenset[str]) -> Any:
    names = schema.get("type", "string")
    name = names if isinstance(names, str) else names[0]
    if name in ("integer", "number"):
        return schema.get("minimum", 1)
    if name == "object" and schema.get("required"):
        return required_example(schema, components, inside)
    return _BY_TYPE.get(name)


def required_example(
    schema: Schema, components: Mapping[str, Schema], inside: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Return an object with the required fields only."""
    fields = schema.get("properties", {})
    return {name: example_of(fields[name], components, inside) for name in schema.get("required", ()) if name in fields}


# -- parameters and headers --------------------------------------------------------------------------------------------

_NAME = {"type": "string", "pattern": "^[A-Za-z0-9_.:-]{1,128}$"}
_ANY = {"type": "string"}
#: NUL is refused everywhere; an empty text counts as missing.
_TEXT = {"type": "string", "maxLength": 256, "pattern": "^[^\\u0000]*$"}
#: Bare, or quoted with a backslash before a quote or a backslash; a bare one does not begin with a quote.
_KEY = {
    "type": "string",
    "pattern": r'^([!#-~][!-~]{0,254}|"([!#-\[\]-~]|\\["\\]){1,255}")$',
    "minLength": 1,
    "maxLength": 512,
}


#: A type of outbound event by its full name, or its last word.
_KIND = f"(api\\.analyze\\.job\\.)?({'|'.join(kind.rpartition('.')[2] for kind in OutboundType)})"


def _number(lowest: int, highest: int, default: int) -> Document:
    return {"type": "integer", "minimum": lowest, "maximum": highest, "default": default}


_PARAMETERS: dict[str, tuple[str, Document, str]] = {
    "job_id": (
        "path",
        {"type": "string", "minLength": 1, "pattern": "^[^/]+$"},
        "The id of a job: a UUID, or its id in an imported store.",
    ),
    "result_id": (
        "path",
        {"type": "string", "minLength": 1, "pattern": "^[^/]+$"},
        "The id of a snapshot: a UUID, or its id in an imported store.",
    ),
    "analysis_name": ("path", {"type": "string", "minLength": 1, "pattern": "^[^/]+$"}, "The name of an analysis."),
    "key_id": (
        "path",
        {"type": "string", "minLength": 1, "pattern": "^[^/]+$"},
        "The id of a key: the beginning of its text.",
    ),
    "schedule": ("path", {"type": "string", "minLength": 1, "pattern": "^[^/]+$"}, "The name of a schedule."),
    "endpoint_id": ("path", {"type": "string", "minLength": 1, "pattern": "^[^/]+$"}, "The id of an endpoint."),
    "notification_id": ("path", {"type": "string", "minLength": 1, "pattern": "^[^/]+$"}, "The id of a delivery."),
    "X-Org-Id": ("header", _NAME, "The org; without it the key's, else `default-org`."),
    "X-Tenant-Id": ("header", _NAME, "Another name for `X-Org-Id`; where both are given they must be equal."),
    "X-User-Id": ("header", _NAME, "The user who submits, stored with the job."),
    "X-Request-Id": (
        "header",
        _ANY,
        "An id of the client, returned and stored: 1 to 128 characters `A-Z a-z 0-9 _ . : -`. Any other is ignored.",
    ),
    "traceparent": (
        "header",
        _ANY,
        "The trace of the job (W3C trace context). A malformed one is ignored.",
    ),
    "tracestate": ("header", _ANY, "Vendor data of the trace, passed on with `traceparent`."),
    "Prefer": ("header", _ANY, "`respond-async`, and with it `wait=N` seconds. Unknown preferences are ignored."),
    "Idempotency-Key": (
        "header",
        _KEY,
        "The same key and payload give the same job again: 1 to 255 visible ASCII characters, bare or quoted.",
    ),
    "If-None-Match": ("header", _ANY, "The ETag of a known response, or a list of them."),
    "Last-Event-ID": (
        "header",
        _ANY,
        "Of a stream: only events after this number; overrides `after`. Ignored for pages.",
    ),
    "feed.Last-Event-ID": (
        "header",
        _ANY,
        "Of a stream: the position to resume from; overrides `after`. Ignored for pages.",
    ),
    "feed.after": (
        "query",
        {"type": "string", "maxLength": 1_024, "pattern": "^[A-Za-z0-9_-]*$", "default": "start"},
        "Resume from here: `next_after` of a page, or the `id` of a streamed event; `start` (the oldest) or `latest`.",
    ),
    "feed.types": (
        "query",
        {"type": "string", "maxLength": 512, "pattern": f"^({_KIND}(,{_KIND})*)?$", "examples": ["completed,failed"]},
        "Only these types, separated by commas: `api.analyze.job.completed`, or its last word.",
    ),
    "feed.limit": ("query", _number(1, 200, 50), "The maximum number; not for a stream."),
    "feed.wait": (
        "query",
        _number(0, 30, 0),
        "Long poll: wait for an event, at most so many seconds; not for a stream.",
    ),
    "access_token": ("query", {"type": "string"}, "A token for this one job, where a header cannot be sent."),
    "wait": ("query", _number(0, 30, 0), "Long poll: wait until the job changes, at most so many seconds."),
    "view": (
        "query",
        {"type": "string", "enum": ["latest", "requested"], "default": "latest"},
        "The newest snapshot of the job, or exactly this one.",
    ),
    "limit": ("query", _number(1, 200, 50), "The maximum number."),
    "events.limit": ("query", _number(1, 1_000, 100), "The maximum number; not for a stream."),
    "offset": ("query", _number(0, 1_000_000, 0), "The number to skip."),
    "after": (
        "query",
        {"type": "integer", "minimum": 0, "default": 0},
        "Only events after this number, which must not be beyond the end of the log.",
    ),
    "for": ("query", {"type": "string", "enum": ["reads"]}, "`reads`: only check that the store can be read."),
    "unread": ("query", {"type": "string", "enum": ["true", "false"]}, "`true`: only unread messages."),
    "channel": ("query", {"type": "string", "enum": list(CHANNELS)}, "Only messages of this channel."),
    "status": ("query", {"type": "string", "enum": list(Status)}, "Only jobs in this state."),
    "provenance.format": ("query", {"enum": ["json", "prov"]}, "`prov`: as a document of W3C PROV-JSON."),
    "deliveries.status": (
        "query",
        {"type": "string", "enum": list(DELIVERY_STATUSES)},
        "Only deliveries with this status.",
    ),
    "endpoint": ("query", _TEXT, "Only deliveries to this endpoint, by its id."),
    "job": ("query", _TEXT, "Only deliveries about this job, by its id."),
    "analysis": ("query", _TEXT, "Only jobs of this analysis."),
    "q": ("query", _TEXT, "Only jobs whose input or id has this text."),
    "cursor": ("query", _TEXT, "The start of the page: `next_cursor` of the previous page."),
}


def parameter(key: str) -> Document:
    """Return a parameter by its key; `events.limit` is the `limit` of one operation."""
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
        "The id of the request, as in the log: the client's own where it sent a valid one.",
    ),
    "X-Content-Type-Options": ({"const": "nosniff"}, "The content type is not to be guessed."),
    "Cache-Control": (_ANY, "Tenant data is `no-store` or `private, no-cache`; an error is `no-store`."),
    "Vary": (_ANY, "Headers that select the response."),
    "Location": ({"type": "string", "format": "uri-reference"}, "The job."),
    "Content-Location": ({"type": "string", "format": "uri-reference"}, "The job of the response."),
    "Retry-After": (_SECONDS, "Seconds after which to retry or poll."),
    "ETag": ({"type": "string", "pattern": '^W/"[^"]+"$'}, "Changes with the response; for `If-None-Match`."),
    "Link": (_ANY, 'The next page, as `<…>; rel="next"`; missing on the last one.'),
    "Preference-Applied": (_ANY, "The preferences of `Prefer` that were applied; missing without any."),
    "Idempotent-Replayed": ({"const": "true"}, "The job was created by an earlier request with the same key."),
    "Allow": (_ANY, "The methods of this path."),
    "WWW-Authenticate": (_ANY, "How to send a key."),
    "Accept": (_ANY, "The accepted media type."),
    "Accept-Encoding": (_ANY, "The accepted content coding."),
    "RateLimit": (_ANY, "The remaining quota: `r` requests within `t` seconds; only with a rate limit."),
    "RateLimit-Policy": (_ANY, "The limit: `q` requests within `w` seconds; only with a rate limit."),
}
#: On every response.
ALWAYS = ("X-Request-Id", "X-Content-Type-Options")
#: On responses that depend on the caller.
GUARDED = ("Cache-Control", "Vary")


def header_components() -> Document:
    """Return all headers: `Name` where it is optional, `Name.always` where it is required."""
    made: Document = {}
    for name, (schema, text) in _HEADERS.items():
        made[name] = {"description": text, "schema": schema}
        made[f"{name}.always"] = {"description": text, "required": True, "schema": schema}
    return made


def headers(*always: str, maybe: tuple[str, ...] = ()) -> Document:
    """Return the header references of one response."""
    names = {name: f"{name}.always" for name in (*ALWAYS, *always)} | {name: name for name in maybe}
    return {name: {"$ref": f"#/components/headers/{component}"} for name, component in names.items()}
