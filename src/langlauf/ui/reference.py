"""The API reference, read from the OpenAPI document, so that it says what the document says."""

import re
from typing import Any

import msgspec
from markupsafe import Markup
from starlette.responses import Response

from langlauf.api.context import Context
from langlauf.api.openapi.document import build_document
from langlauf.api.openapi.problems import OWN_CODE, problem_schemas
from langlauf.api.openapi.schema import Schema, ref_name
from langlauf.api.schemas import ProblemOut
from langlauf.problems import phrase_of
from langlauf.ui.fields import Field, Part, fields_of, kind_of, to_json
from langlauf.ui.rendering import PUBLIC, Rendering
from langlauf.ui.visit import Visit

_CODE = re.compile(r"`([a-z_]+)`:")
_PROBLEM = "application/problem+json"
#: Schemas that are not shown here: each code has a page of its own.
_ELSEWHERE = frozenset(problem_schemas()) - {OWN_CODE}


class Example(msgspec.Struct, frozen=True):
    """Something to send or to get, as JSON text."""

    name: str
    text: str


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One way an operation answers. `codes` are the error codes that come with the status."""

    status: int
    phrase: str
    media: str
    kind: list[Part]
    description: str
    codes: list[str]
    headers: list[str]
    examples: list[Example]


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path."""

    name: str
    method: str
    path: str
    summary: str
    #: what a key must allow; empty where everybody may call
    scope: str
    parameters: list[Field]
    body: list[Part]
    body_required: bool
    examples: list[Example]
    answers: list[Answer]


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A named schema, or one of its alternatives. `kind` is for those that are no objects."""

    title: str
    description: str
    fields: list[Field]
    kind: list[Part]


class Component(msgspec.Struct, frozen=True, kw_only=True):
    """A schema with its alternatives, which most have one of."""

    name: str
    description: str
    shapes: list[Shape]


class ReferencePage:
    """`/docs`."""

    def __init__(self, context: Context, rendering: Rendering) -> None:
        self._rendering = rendering
        document = build_document(context.services.registry, context.prefix)
        self._groups = operations_by_tag(document)
        schemas = document["components"]["schemas"]
        self._components = [_component(name, schema) for name, schema in schemas.items() if name not in _ELSEWHERE]
        self._rendered: dict[tuple[str, bool], Markup] = {}

    async def show(self, visit: Visit) -> Response:
        """The page; it is the same for everybody, and its long part is made once per language."""
        key = (visit.language.code, visit.chosen)
        if key not in self._rendered:
            text = self._rendering.html(visit, "_operations.html", groups=self._groups, components=self._components)
            self._rendered[key] = Markup(text)  # noqa: S704 - a template's own output, escaped when it was made
        return self._rendering.page(visit, "reference.html", cache=PUBLIC, operations=self._rendered[key])


def operations_by_tag(document: dict[str, Any]) -> dict[str, list[Operation]]:
    """Every operation of the document, in its order, under its tag."""
    groups: dict[str, list[Operation]] = {}
    shared = document["components"]["responses"]
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            groups.setdefault(described["tags"][0], []).append(_operation(path, method, described, shared))
    return groups


def _operation(path: str, method: str, described: Schema, shared: Schema) -> Operation:
    body = described.get("requestBody", {})
    content = body.get("content", {}).get("application/json", {})
    return Operation(
        name=described["operationId"],
        method=method.upper(),
        path=path,
        summary=described["summary"],
        scope=described.get("x-scope", ""),
        parameters=[_parameter(one) for one in described["parameters"]],
        body=kind_of(content["schema"]) if content else [],
        body_required=body.get("required", False),
        examples=_examples(content),
        answers=[
            _answer(int(status), shared.get(ref_name(one) or "", one))
            for status, one in sorted(described["responses"].items())
        ],
    )


def _parameter(described: Schema) -> Field:
    schema = described["schema"]
    return Field(
        name=described["name"],
        kind=kind_of(schema),
        required=described["required"],
        default=to_json(schema["default"]) if "default" in schema else None,
        description=described["description"],
        where=described["in"],
    )


def _answer(status: int, described: Schema) -> Answer:
    contents: dict[str, Schema] = described.get("content", {})
    media = next(iter(contents), "")
    content = contents.get(media, {})
    return Answer(
        status=status,
        phrase=phrase_of(status),
        media=media,
        kind=_kind(media, content),
        description=described["description"],
        codes=_CODE.findall(described["description"]) if media == _PROBLEM else [],
        headers=list(described.get("headers", {})),
        examples=_examples(content),
    )


def _kind(media: str, content: Schema) -> list[Part]:
    """What a body is. Problems are shown by the shape that all have: their codes stand beside."""
    if media == _PROBLEM:
        return [Part(ProblemOut.__name__, ProblemOut.__name__)]
    return kind_of(content["schema"]) if content else []


def _examples(content: Schema) -> list[Example]:
    return [
        Example(name, msgspec.json.format(msgspec.json.encode(one["value"]), indent=2).decode())
        for name, one in content.get("examples", {}).items()
    ]


def _component(name: str, schema: Schema) -> Component:
    alternatives = schema.get("anyOf") or [schema]
    return Component(
        name=name,
        description=schema.get("description", ""),
        shapes=[
            Shape(
                title=one.get("title", name),
                description=one.get("description", ""),
                fields=fields_of(one),
                kind=[] if one.get("properties") else kind_of(one),
            )
            for one in alternatives
        ],
    )
