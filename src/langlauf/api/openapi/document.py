"""The OpenAPI 3.1 document, built from the table of operations, the wire schemas and the registered analyses."""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from langlauf.analysis.registry import Registry
from langlauf.api import response_schemas
from langlauf.api.context import ApiContext
from langlauf.api.openapi.parameters import header_components, parameter
from langlauf.api.openapi.problems import method_not_allowed, problem_schemas, shared_answers
from langlauf.api.openapi.requests import ANALYZE, request_body, request_components, webhook
from langlauf.api.openapi.responses import SCHEMES, access, requirements, responses
from langlauf.api.openapi.schema import Document, Struct, output_schemas
from langlauf.api.operations import OPERATIONS, Operation
from langlauf.api.record_schemas import ProblemOut
from langlauf.domain.event import CloudEvent
from langlauf.server.asgi import root_url

__all__ = ["Document", "OpenApiHandler", "build_document"]

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
