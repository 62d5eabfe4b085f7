"""The OpenAPI 3.1 document, built from the table of operations, the wire schemas and the registered analyses."""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from langlauf.analysis.registry import Analysis, Registry
from langlauf.api import request_schemas as bodies
from langlauf.api import response_schemas
from langlauf.api.context import ApiContext
from langlauf.api.openapi.components import (
    Document,
    Struct,
    header_components,
    input_schemas,
    json_content,
    output_schemas,
    parameter,
    ref,
    required_example,
)
from langlauf.api.openapi.examples import cloud_event
from langlauf.api.openapi.responses import (
    SCHEMES,
    access,
    method_not_allowed,
    problem_schemas,
    requirements,
    responses,
    shared_answers,
)
from langlauf.api.operations import OPERATIONS, Operation
from langlauf.api.record_schemas import ProblemOut
from langlauf.domain.event import CLOUD_EVENT_MEDIA_TYPE, CloudEvent
from langlauf.server.asgi import root_url

__all__ = ["Document", "OpenApiHandler", "build_document"]

# -- request bodies and callbacks --------------------------------------------------------------------------------------

ANALYZE = "AnalyzeRequest"
#: Example bodies; others are derived from the schema.
_EXAMPLES: Document = {
    "CancelBody": {"reason": "no longer needed"},
    "RetryBody": {"resume": True},
    "NotifyJobBody": {"email": "name@example.org", "language": "de"},
    "HoldBody": {"reason": "wanted for the audit of 2026"},
    "ReadBody": {"until": "2026-03-02T09:30:04Z"},
    "TokenBody": {"expires_in": "10m"},
    "CreateKeyBody": {"name": "nightly import", "scopes": ["submit", "read"]},
    "CreateWebhookBody": {
        "url": "https://hooks.example.com/jobs",
        "name": "warehouse",
        "events": ["completed", "failed"],
    },
    "CreateScheduleBody": {
        "name": "morning",
        "input": {},
        "cron": "0 6 * * 1-5",
        "zone": "Europe/Zurich",
    },
    "ChangeScheduleBody": {"paused": True},
    "ChangeWebhookBody": {"enabled": False},
    "RotateBody": {"overlap": "12h"},
    "ReplayBody": {"since": "2026-03-02T08:00:00Z"},
}
#: Bodies that must not be empty.
_NOT_EMPTY = ("ReadBody",)
_TIMEOUT: Document = {
    "anyOf": [
        {"type": "number", "exclusiveMinimum": 0},
        {"type": "string", **bodies.DURATION_TEXT},
        {"type": "null"},
    ],
    "description": "Lowers the time limit of an attempt: seconds, or a text like `30m`.",
}
_SUBMIT_TEXT = (
    "Parameters of an analysis, flat or under `input`. Whole numbers are written without a decimal point, and none "
    "is beyond 2^53 - 1. Texts may contain neither NUL nor half of a surrogate "
    "pair, and nothing may be nested deeper than the server's limit."
)


def request_components(registry: Registry) -> Document:
    """Return the schemas of all bodies."""
    fixed = [_struct(one.body) for one in OPERATIONS if one.body is not None and one.body != ANALYZE]
    made = input_schemas([bodies.Options, *fixed, *(analysis.input_type for analysis in registry)])
    for name in _NOT_EMPTY:
        made[name] = {**made[name], "minProperties": 1}
    shapes = [shape for analysis in registry for shape in _shapes(analysis, registry.default)]
    return {**made, ANALYZE: {"anyOf": shapes, "description": _SUBMIT_TEXT}}


def request_body(operation: Operation, registry: Registry) -> Document:
    """Return the body of one operation; it is required where a field of it is."""
    name = operation.body or ""
    if name == ANALYZE:
        return {"required": True, "content": json_content(ref(name), _submissions(registry))}
    value = _EXAMPLES.get(name) or _required_example(_struct(name))
    needed = name in _NOT_EMPTY or any(field.required for field in msgspec.structs.fields(_struct(name)))
    return {"required": needed, "content": json_content(ref(name), {"body": {"value": value}})}


def _struct(name: str) -> Struct:
    """Return the struct of a body by its name in the table of operations."""
    found: Struct = getattr(bodies, name)
    return found


def _required_example(kind: Struct) -> Document:
    _, parts = msgspec.json.schema_components([kind])
    return required_example(parts[kind.__name__], parts)


def _shapes(analysis: Analysis, default: str | None) -> list[Document]:
    is_default = analysis.name == default
    name: Document = {"enum": [analysis.name, None]} if is_default else {"const": analysis.name}
    common = {
        "analysis": {**name, "description": analysis.description},
        "timeout_seconds": _TIMEOUT,
        "options": {"anyOf": [ref(bodies.Options), {"type": "null"}]},
    }
    named = [] if is_default else ["analysis"]
    own = input_schemas([analysis.input_type])[analysis.input_type.__name__]
    flat = {
        "type": "object",
        "title": f"{analysis.name}, flat",
        "properties": {**own.get("properties", {}), **common},
        "required": [*own.get("required", []), *named],
        "additionalProperties": False,
    }
    nested = {
        "type": "object",
        "title": f"{analysis.name}, under input",
        "properties": {"input": ref(analysis.input_type), **common},
        "required": ["input", *named],
        "additionalProperties": False,
    }
    return [flat, nested]


def _submissions(registry: Registry) -> Document:
    """Return examples for each analysis, synchronous and as a job; an example that does not validate is left out."""
    made: Document = {}
    for analysis in registry:
        values = _required_example(analysis.input_type)
        try:
            msgspec.convert(values, analysis.input_type)
        except msgspec.ValidationError:
            continue
        later = {"analysis": analysis.name, "input": values, "options": {"async_mode": {"requested": True}}}
        made[analysis.name] = {"summary": "Wait for the result", "value": {"analysis": analysis.name, **values}}
        made[f"{analysis.name}.async"] = {"summary": "Submit it as a job", "value": later}
    return made


#: The runtime expression of the webhook URL in a submission.
_ADDRESS = "{$request.body#/options/async_mode/notify/webhook}"
_CALLBACK_TEXT = (
    "A CloudEvent when the job is `completed`, `failed` or `canceled`, signed by the Standard Webhooks scheme. It is "
    "sent at least once: a refused one is retried for days. Endpoints of the org (`/webhooks`) get the same "
    "of all its jobs, and may subscribe to more."
)
_CALLBACK_HEADERS = {
    "webhook-id": "The same on every retry: use it to drop duplicates.",
    "webhook-timestamp": "When this attempt was made, in seconds since 1970.",
    "webhook-signature": "`v1,` and the HMAC-SHA256 of id, timestamp and body in Base64; several, with spaces between.",
}


def webhook() -> Document:
    """Return the callback of a submission."""
    return {
        "webhook": {
            _ADDRESS: {
                "post": {
                    "summary": "The job has ended.",
                    "description": _CALLBACK_TEXT,
                    "parameters": [
                        {
                            "name": name,
                            "in": "header",
                            "required": True,
                            "schema": {"type": "string"},
                            "description": text,
                        }
                        for name, text in _CALLBACK_HEADERS.items()
                    ],
                    "requestBody": {
                        "required": True,
                        "content": json_content(
                            ref(CloudEvent), {"completed": {"value": cloud_event()}}, CLOUD_EVENT_MEDIA_TYPE
                        ),
                    },
                    "responses": {
                        "2XX": {"description": "Accepted. Anything else is retried, including redirects."},
                        "410": {"description": "No longer wanted: nothing more is sent to this URL."},
                    },
                }
            }
        }
    }


# -- document ----------------------------------------------------------------------------------------------------------

_VERSION = "1"
_TEXT = """Durable, observable, multi-tenant jobs. Analyses: {names}.

HEAD works wherever GET does, with the same headers. An unsupported method is 405 with `Allow`, as in the shared
response `405_method_not_allowed`. Every response has `X-Request-Id`; every error is a problem (RFC 9457) whose
`type` links to the page of its code. `x-scope` is the scope that a key needs; without keys,
everything is allowed."""


class OpenApiHandler:
    """Serves the document. It depends on the root URL and on whether keys are required."""

    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._made: dict[tuple[str, bool], bytes] = {}

    async def document(self, request: Request) -> Response:
        """Return the OpenAPI document of this application."""
        services = self._context.services
        await services.authenticator.refresh()
        base, is_open = root_url(request.scope, self._context.settings.public_url), services.authenticator.open
        if (base, is_open) not in self._made:
            by_id = self._context.settings.by_id
            made = build_document(services.registry, self._context.prefix, base=base, is_open=is_open, by_id=by_id)
            self._made = {(base, is_open): msgspec.json.encode(made)}
        headers = {"Cache-Control": "public, max-age=300"}
        return Response(self._made[base, is_open], headers=headers, media_type="application/json")


def build_document(
    registry: Registry, prefix: str = "/analyze", *, base: str = "", is_open: bool = True, by_id: bool = False
) -> Document:
    """Build the document with every route, schema and analysis. `base` is where the application is mounted.

    `is_open` means that no key is required, `by_id` that an id is enough to read its record.
    """
    paths: Document = {}
    for operation in OPERATIONS:
        described = {**_operation(operation, registry, prefix), **access(operation, is_open=is_open, by_id=by_id)}
        paths.setdefault(operation.path_under(prefix), {})[operation.method] = described
    text = _TEXT.format(names=", ".join(registry.names))
    document: Document = {
        "openapi": "3.1.1",
        "info": {"title": "Langlauf", "version": _VERSION, "description": text},
        "servers": [{"url": base or "/"}],
        "security": requirements(is_open=is_open),
        "paths": paths,
    }
    shared = _used(document, "responses", shared_answers()) | method_not_allowed()
    document["components"] = {
        "schemas": _schemas(registry),
        "responses": shared,
        "headers": _used([document, shared], "headers", header_components()),
        "securitySchemes": SCHEMES,
    }
    return document


def _used(where: Any, kind: str, parts: Document) -> Document:
    """Return the parts that something refers to."""
    text = msgspec.json.encode(where).decode()
    return {name: part for name, part in parts.items() if f'"#/components/{kind}/{name}"' in text}


def _operation(operation: Operation, registry: Registry, prefix: str) -> Document:
    made: Document = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.tag],
        "parameters": [parameter(name) for name in operation.parameters],
        "responses": responses(operation, prefix),
    }
    if operation.body is not None:
        made["requestBody"] = request_body(operation, registry)
    if operation.body == ANALYZE:
        made["callbacks"] = webhook()
    return made


def _schemas(registry: Registry) -> Document:
    answers = [operation.answer for operation in OPERATIONS if operation.answer is not None]
    streams = [operation.stream for operation in OPERATIONS if operation.stream is not None]
    kinds: list[Struct] = [*answers, *streams, response_schemas.AcceptedResponse, ProblemOut, CloudEvent]
    return {**output_schemas(kinds), **request_components(registry), **problem_schemas()}
