"""Request bodies: what each registered analysis takes, flat or under `input`, with examples that fit."""

import msgspec

from langlauf.analysis.registry import Analysis, Registry
from langlauf.http import schemas
from langlauf.http.document.samples import required_example
from langlauf.http.document.shapes import Document, Struct, json_content, ref, request_schemas
from langlauf.http.operations import Operation

ANALYZE = "AnalyzeRequest"
#: Bodies that do not depend on what is registered, each with an example.
_FIXED: dict[str, tuple[Struct, Document]] = {
    "CancelBody": (schemas.CancelBody, {"reason": "no longer needed"}),
    "RetryBody": (schemas.RetryBody, {"resume": True}),
    "TokenBody": (schemas.TokenBody, {"expires_in": "10m"}),
    "CreateKeyBody": (schemas.CreateKeyBody, {"name": "nightly import", "scopes": ["submit", "read"]}),
}
_TIMEOUT: Document = {
    "anyOf": [
        {"type": "number", "exclusiveMinimum": 0},
        {"type": "string", "pattern": r"^(?=[^1-9]*[1-9])\s*[0-9]+(\.[0-9]+)?\s*[smhd]?\s*$"},
        {"type": "null"},
    ],
    "description": "Lowers the time limit of an attempt: seconds, or a text like `30m`.",
}
_TEXT = (
    "Parameters of an analysis, flat or under `input`. Texts may hold neither NUL nor half of a surrogate pair, and "
    "nothing may be nested deeper than the server's limit."
)


def request_components(registry: Registry) -> Document:
    """The schemas of all bodies."""
    inputs = [analysis.input_type for analysis in registry]
    made = request_schemas([schemas.Options, *(kind for kind, _ in _FIXED.values()), *inputs])
    shapes = [shape for analysis in registry for shape in _shapes(analysis, registry.default)]
    return {**made, ANALYZE: {"anyOf": shapes, "description": _TEXT}}


def request_body(operation: Operation, registry: Registry) -> Document:
    """The body of one operation; only that of a submission must be there."""
    name = operation.body or ""
    examples = _submissions(registry) if name == ANALYZE else {"body": {"value": _FIXED[name][1]}}
    return {"required": name == ANALYZE, "content": json_content(ref(name), examples)}


def _shapes(analysis: Analysis, default: str | None) -> list[Document]:
    is_default = analysis.name == default
    name: Document = {"enum": [analysis.name, None]} if is_default else {"const": analysis.name}
    common = {
        "analysis": {**name, "description": analysis.description},
        "timeout_seconds": _TIMEOUT,
        "options": {"anyOf": [ref(schemas.Options), {"type": "null"}]},
    }
    named = [] if is_default else ["analysis"]
    own = request_schemas([analysis.input_type])[analysis.input_type.__name__]
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
    """One per analysis, and how to ask for a job instead of an answer; what does not fit is left out."""
    made: Document = {}
    for analysis in registry:
        _, schemas_of = msgspec.json.schema_components([analysis.input_type])
        values = required_example(schemas_of[analysis.input_type.__name__], schemas_of)
        try:
            msgspec.convert(values, analysis.input_type)
        except msgspec.ValidationError:
            continue
        later = {"analysis": analysis.name, "input": values, "options": {"async_mode": {"requested": True}}}
        made[analysis.name] = {"summary": "Wait for the result", "value": {"analysis": analysis.name, **values}}
        made[f"{analysis.name}.async"] = {"summary": "Have it accepted as a job", "value": later}
    return made
