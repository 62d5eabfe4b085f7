"""`/docs`: the API reference, generated from the OpenAPI document."""

import re
from typing import Any

import msgspec
from markupsafe import Markup
from starlette.responses import Response

from langlauf.api.context import ApiContext
from langlauf.api.openapi.components import Schema, ref_name
from langlauf.api.openapi.document import build_document
from langlauf.api.openapi.responses import OWN_CODE, problem_schemas
from langlauf.api.record_schemas import ProblemOut
from langlauf.domain.text import LARGEST_INTEGER, SMALLEST_INTEGER
from langlauf.problems import phrase_of
from langlauf.ui.page_request import PageRequest
from langlauf.ui.renderer import PUBLIC, PageRenderer

#: Keywords of JSON schema that limit a type.
_TYPE_LIMITS = (
    "format", "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
    "pattern", "minItems", "maxItems", "minProperties", "maxProperties",
)  # fmt: skip


#: Limits that every integer has, and that are not shown.
_UNBOUNDED = (None, LARGEST_INTEGER, SMALLEST_INTEGER)


class TypePart(msgspec.Struct, frozen=True):
    """A part of a type. `ref` names the schema that it links to."""

    text: str
    ref: str | None = None


class SchemaField(msgspec.Struct, frozen=True, kw_only=True):
    """A field or parameter. `default` is JSON text."""

    name: str
    kind: list[TypePart]
    required: bool
    default: str | None
    description: str
    #: path, query or header; empty for a field of a body
    where: str = ""


def to_json(value: Any) -> str:
    """Encode a value as JSON."""
    return msgspec.json.encode(value).decode()


def type_notation(schema: Schema) -> list[TypePart]:
    """Return a type in a short notation: `string | null`, `"a" | "b"`, `JobOut[]`."""
    if name := ref_name(schema):
        return [TypePart(name, name)]
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return _join_types([type_notation(one) for one in schema[word]], " | ")
    if "const" in schema:
        return [TypePart(to_json(schema["const"]))]
    if "enum" in schema:
        return [TypePart(" | ".join(to_json(value) for value in schema["enum"]))]
    names = schema.get("type", "any")
    base = [TypePart(names if isinstance(names, str) else " | ".join(names))]
    items = schema.get("items")
    if names == "array" and items:
        base = [*type_notation(items), TypePart("[]")]
    limits = "".join(f", {word} {schema[word]}" for word in _TYPE_LIMITS if schema.get(word) not in _UNBOUNDED)
    return [*base, TypePart(limits)] if limits else base


def _join_types(kinds: list[list[TypePart]], between: str) -> list[TypePart]:
    parts: list[TypePart] = []
    for number, kind in enumerate(kinds):
        parts += [TypePart(between), *kind] if number else kind
    return parts


def schema_fields(schema: Schema) -> list[SchemaField]:
    """Return the fields of an object, in the order in which they are declared."""
    required = schema.get("required", ())
    return [
        SchemaField(
            name=name,
            kind=type_notation(field),
            required=name in required,
            default=to_json(field["default"]) if "default" in field else None,
            description=field.get("description", ""),
        )
        for name, field in schema.get("properties", {}).items()
    ]


_CODE_IN_TEXT = re.compile(r"`([a-z_]+)`:")
_PROBLEM_TYPE = "application/problem+json"


class BodyExample(msgspec.Struct, frozen=True):
    """An example body, as JSON text."""

    name: str
    text: str


class ResponseDoc(msgspec.Struct, frozen=True, kw_only=True):
    """One response of an operation. `codes` are the error codes with this status."""

    status: int
    phrase: str
    media: str
    kind: list[TypePart]
    description: str
    codes: list[str]
    headers: list[str]
    examples: list[BodyExample]


class OperationDoc(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path."""

    name: str
    method: str
    path: str
    summary: str
    #: the scope that a key needs; empty where no key is needed
    scope: str
    parameters: list[SchemaField]
    body: list[TypePart]
    body_required: bool
    examples: list[BodyExample]
    answers: list[ResponseDoc]


class SchemaVariant(msgspec.Struct, frozen=True, kw_only=True):
    """A schema, or one of its alternatives. `kind` is set where it is not an object."""

    title: str
    description: str
    fields: list[SchemaField]
    kind: list[TypePart]


class SchemaDoc(msgspec.Struct, frozen=True, kw_only=True):
    """A named schema with its alternatives; most have one."""

    name: str
    description: str
    shapes: list[SchemaVariant]


class ReferencePage:
    """`/docs`."""

    def __init__(self, context: ApiContext, renderer: PageRenderer) -> None:
        self._context = context
        self._renderer = renderer
        self._rendered: dict[tuple[str, bool], Markup] = {}

    async def show(self, request: PageRequest) -> Response:
        """Show the page. It is the same for every caller, so its long part is rendered once per language."""
        key = (request.language.code, request.language_in_url)
        if key not in self._rendered:
            text = self._renderer.html(request, "_operations.html", **self._described())
            self._rendered[key] = Markup(text)  # noqa: S704 - a template's own output, escaped when it was made
        return self._renderer.page(request, "reference.html", cache=PUBLIC, operations=self._rendered[key])

    def _described(self) -> dict[str, Any]:
        document = build_document(self._context.services.registry, self._context.prefix)
        schemas = document["components"]["schemas"]
        with_own_page = schemas_with_own_page()
        return {
            "groups": operations_by_tag(document),
            "components": [_schema_doc(name, schema) for name, schema in schemas.items() if name not in with_own_page],
        }


def schemas_with_own_page() -> set[str]:
    """Return the schemas of single codes, which have pages of their own."""
    return problem_schemas().keys() - {OWN_CODE}


def operations_by_tag(document: dict[str, Any]) -> dict[str, list[OperationDoc]]:
    """Return the operations by tag, in the order of the document."""
    groups: dict[str, list[OperationDoc]] = {}
    shared = document["components"]["responses"]
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            groups.setdefault(described["tags"][0], []).append(_operation_doc(path, method, described, shared))
    return groups


def _operation_doc(path: str, method: str, described: Schema, shared: Schema) -> OperationDoc:
    body = described.get("requestBody", {})
    content = body.get("content", {}).get("application/json", {})
    return OperationDoc(
        name=described["operationId"],
        method=method.upper(),
        path=path,
        summary=described["summary"],
        scope=described.get("x-scope", ""),
        parameters=[_parameter_field(one) for one in described["parameters"]],
        body=type_notation(content["schema"]) if content else [],
        body_required=body.get("required", False),
        examples=_examples(content),
        answers=[
            _response_doc(int(status), shared.get(ref_name(one) or "", one))
            for status, one in sorted(described["responses"].items())
        ],
    )


def _parameter_field(described: Schema) -> SchemaField:
    schema = described["schema"]
    return SchemaField(
        name=described["name"],
        kind=type_notation(schema),
        required=described["required"],
        default=to_json(schema["default"]) if "default" in schema else None,
        description=described["description"],
        where=described["in"],
    )


def _response_doc(status: int, described: Schema) -> ResponseDoc:
    contents: dict[str, Schema] = described.get("content", {})
    media = next(iter(contents), "")
    content = contents.get(media, {})
    return ResponseDoc(
        status=status,
        phrase=phrase_of(status),
        media=media,
        kind=_body_type(media, content),
        description=described["description"],
        codes=_CODE_IN_TEXT.findall(described["description"]) if media == _PROBLEM_TYPE else [],
        headers=list(described.get("headers", {})),
        examples=_examples(content),
    )


def _body_type(media: str, content: Schema) -> list[TypePart]:
    """Return the type of a body. Problems show their common schema, as the codes are listed beside it."""
    if media == _PROBLEM_TYPE:
        return [TypePart(ProblemOut.__name__, ProblemOut.__name__)]
    return type_notation(content["schema"]) if content else []


def _examples(content: Schema) -> list[BodyExample]:
    return [
        BodyExample(name, msgspec.json.format(msgspec.json.encode(one["value"]), indent=2).decode())
        for name, one in content.get("examples", {}).items()
    ]


def _schema_doc(name: str, schema: Schema) -> SchemaDoc:
    alternatives = schema.get("anyOf") or [schema]
    return SchemaDoc(
        name=name,
        description=schema.get("description", ""),
        shapes=[
            SchemaVariant(
                title=one.get("title", name),
                description=one.get("description", ""),
                fields=schema_fields(one),
                kind=[] if one.get("properties") else type_notation(one),
            )
            for one in alternatives
        ],
    )
