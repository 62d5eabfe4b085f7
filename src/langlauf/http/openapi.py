"""The OpenAPI 3.1 document, built from the structs that encode and decode and from the registered analyses."""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from langlauf.analysis.registry import Analysis, Registry
from langlauf.domain.notification import CHANNELS
from langlauf.domain.state import Status
from langlauf.http import schemas
from langlauf.http.context import Context
from langlauf.http.operations import OPERATIONS, Operation
from langlauf.http.problems import TITLES, FieldError

_REF = "#/components/schemas/{name}"
_VERSION = "1"
Document = dict[str, Any]


class Problem(msgspec.Struct, kw_only=True):
    """An error: problem details (RFC 9457) with members of our own."""

    type: str
    title: str
    status: int
    detail: str
    ok: bool
    error: str
    message: str
    request_id: str
    field: str | None = None
    errors: list[FieldError] = []


class Description:
    """Serves the document; it is built once."""

    def __init__(self, context: Context) -> None:
        self._body = msgspec.json.encode(build_document(context.services.registry, context.prefix))

    async def document(self, _: Request) -> Response:
        """The OpenAPI document of this application."""
        headers = {"Cache-Control": "public, max-age=300"}
        return Response(self._body, headers=headers, media_type="application/json")


def build_document(registry: Registry, prefix: str = "/analyze") -> Document:
    """Complete and true: every route, every shape, every analysis."""
    kinds = [operation.answer for operation in OPERATIONS if operation.answer] + [
        schemas.AcceptedAnswer,
        schemas.Options,
        schemas.CancelBody,
        schemas.RetryBody,
        schemas.CreateKeyBody,
        schemas.TokenBody,
        Problem,
        *(analysis.input_type for analysis in registry),
    ]
    _, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    components["AnalyzeRequest"] = _analyze_request(registry)
    paths: Document = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path_under(prefix), {})[operation.method] = _operation(operation)
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "Langlauf",
            "version": _VERSION,
            "description": "Durable, observable, multi-tenant jobs. Analyses: " + ", ".join(registry.names) + ".",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def _ref(kind: type[msgspec.Struct] | str) -> Document:
    name = kind if isinstance(kind, str) else kind.__name__
    return {"$ref": _REF.format(name=name)}


def _operation(operation: Operation) -> Document:
    made: Document = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.tag],
        "parameters": [_parameter(name) for name in operation.parameters],
        "responses": _responses(operation),
    }
    if operation.body is not None:
        required = operation.body == "AnalyzeRequest"
        made["requestBody"] = {"required": required, "content": {"application/json": {"schema": _ref(operation.body)}}}
    return made


def _responses(operation: Operation) -> Document:
    responses: Document = {}
    for status in operation.successes:
        kind = schemas.AcceptedAnswer if status == 202 and operation.accepts else operation.answer  # noqa: PLR2004
        content: Document = {"text/plain": {"schema": {"type": "string"}}}
        if kind is not None:
            content = {"application/json": {"schema": _ref(kind)}}
        elif operation.name == "openapi":
            content = {"application/json": {"schema": {"type": "object"}}}
        responses[str(status)] = {
            "description": "As wished",
            "headers": _headers(status, operation),
            "content": content,
        }
    if operation.name == "jobStatus":
        responses["304"] = {"description": "Nothing changed since the ETag that was sent"}
    for status, codes in operation.problems.items():
        text = "; ".join(f"`{code}`: {TITLES.get(code, code)}" for code in codes)
        responses[str(status)] = {
            "description": text,
            "content": {"application/problem+json": {"schema": _ref(Problem)}},
        }
    return responses


def _headers(status: int, operation: Operation) -> Document:
    names = ["X-Request-Id"] + (["Location", "Retry-After"] if status == 202 and operation.accepts else [])  # noqa: PLR2004
    return {name: {"schema": {"type": "string"}} for name in names}


def _parameter(key: str) -> Document:
    """A parameter by its key; `events.limit` is the `limit` of one operation."""
    where, schema, text = _PARAMETERS[key]
    return {
        "name": key.rpartition(".")[2],
        "in": where,
        "required": where == "path",
        "schema": schema,
        "description": text,
    }


def _number(lowest: int, highest: int, default: int) -> Document:
    return {"type": "integer", "minimum": lowest, "maximum": highest, "default": default}


_ORG = {"type": "string", "pattern": "^[A-Za-z0-9_.:-]{1,128}$"}
_TEXT = {"type": "string", "maxLength": 256}
_PARAMETERS: dict[str, tuple[str, Document, str]] = {
    "job_id": ("path", {"type": "string"}, "The id of a job."),
    "result_id": ("path", {"type": "string"}, "The id of a snapshot."),
    "key_id": ("path", {"type": "string"}, "The id of a key, which is how its text begins."),
    "X-Org-Id": ("header", _ORG, "The org; without it the key's, else `default-org`."),
    "X-Tenant-Id": ("header", _ORG, "Another name for X-Org-Id."),
    "X-User-Id": ("header", _ORG, "Who asked, kept with the job."),
    "X-Request-Id": ("header", _ORG, "An id of the caller's, sent back and kept."),
    "Prefer": ("header", {"type": "string"}, "`respond-async`, and with it `wait=N` seconds."),
    "Idempotency-Key": (
        "header",
        {"type": "string", "minLength": 1, "maxLength": 255},
        "The same key and payload give the same job again.",
    ),
    "If-None-Match": ("header", {"type": "string"}, "The ETag of a known answer."),
    "access_token": ("query", {"type": "string"}, "A token for this one job, where a header cannot be sent."),
    "wait": ("query", _number(0, 30, 0), "Hold the answer until the job changes, at most so many seconds."),
    "view": (
        "query",
        {"type": "string", "enum": ["latest", "requested"], "default": "latest"},
        "The newest snapshot of the job, or exactly this one.",
    ),
    "limit": ("query", _number(1, 200, 50), "How many at the most."),
    "events.limit": ("query", _number(1, 1_000, 100), "How many at the most."),
    "offset": ("query", _number(0, 1_000_000, 0), "How many to pass over."),
    "after": ("query", {"type": "integer", "minimum": 0, "default": 0}, "Only events past this number."),
    "channel": ("query", {"type": "string", "enum": list(CHANNELS)}, "Only messages of this channel."),
    "status": ("query", {"type": "string", "enum": list(Status)}, "Only jobs in this state."),
    "analysis": ("query", _TEXT, "Only jobs of this analysis."),
    "q": ("query", _TEXT, "Only jobs whose input or id has this text."),
    "cursor": ("query", _TEXT, "Where the page starts: `next_cursor` of the page before."),
}


def _analyze_request(registry: Registry) -> Document:
    shapes = [shape for analysis in registry for shape in _request_shapes(analysis, registry.default)]
    return {"anyOf": shapes, "description": "Parameters of an analysis, flat or under `input`."}


def _request_shapes(analysis: Analysis, default: str | None) -> list[Document]:
    name: Document = {"const": analysis.name, "description": analysis.description}
    timeout = {"type": ["number", "string"], "description": "Lowers the time limit: seconds, or a text like 30m."}
    common = {"analysis": name, "timeout_seconds": timeout, "options": _ref(schemas.Options)}
    names = [] if analysis.name == default else ["analysis"]
    _, parts = msgspec.json.schema_components([analysis.input_type], ref_template=_REF)
    own = parts[analysis.input_type.__name__]
    flat = {
        "type": "object",
        "title": f"{analysis.name}, flat",
        "properties": {**own.get("properties", {}), **common},
        "required": [*own.get("required", []), *names],
        "additionalProperties": False,
    }
    nested = {
        "type": "object",
        "title": f"{analysis.name}, under input",
        "properties": {"input": _ref(analysis.input_type), **common},
        "required": ["input", *names],
        "additionalProperties": False,
    }
    return [flat, nested]
