"""The tools: one per analysis, with schemas from its type hints, and `job_status`."""

import dataclasses
import functools
import typing
from typing import Any

import msgspec

from langlauf.analysis.payload import Result
from langlauf.analysis.registry import Analysis, Function, Registry
from langlauf.api.request_schemas import LaterStart

#: The tool that tells how a job is doing, for clients that do not follow tasks.
JOB_STATUS = "job_status"
#: The argument of every tool that is not for its analysis; no parameter of an analysis can have that name.
OPTIONS = "options"
_HINTS = {
    "readOnlyHint": "read_only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
    "openWorldHint": "open_world",
}
_REFERENCE = "#/$defs/"
_JOB_STATUS_TOOL: dict[str, Any] = {
    "name": JOB_STATUS,
    "title": "Status of a job",
    "description": (
        "Wait a while for a job that another tool started, and return its result, or how far it is. Call it again "
        'while the job still runs. Example: {"job_id": "0197c9f0-5c1e-7d4c-9a55-2f0f6f3b1e11"}'
    ),
    "inputSchema": {
        "type": "object",
        "properties": {"job_id": {"type": "string", "description": "The id that the other tool returned."}},
        "required": ["job_id"],
        "additionalProperties": False,
    },
    "annotations": {"readOnlyHint": True, "openWorldHint": False},
}


class ToolList:
    """The tools of an application, in the order of registration."""

    def __init__(self, registry: Registry) -> None:
        self._analyses = {analysis.name: analysis for analysis in registry if analysis.tool is not None}
        self._listed: list[dict[str, Any]] | None = None

    def listed(self) -> list[dict[str, Any]]:
        """Return the description of every tool."""
        if self._listed is None:
            own = [] if JOB_STATUS in self._analyses else [_JOB_STATUS_TOOL]
            self._listed = [*map(_described, self._analyses.values()), *own]
        return self._listed

    def get(self, name: str) -> Analysis | None:
        """Return the analysis behind a tool."""
        return self._analyses.get(name)


def _described(analysis: Analysis) -> dict[str, Any]:
    options = analysis.tool
    tool: dict[str, Any] = {"name": analysis.name}
    if analysis.title != analysis.name:
        tool["title"] = analysis.title
    own = None if options is None else options.description
    tool["description"] = own or analysis.description or f"Run the analysis {analysis.name}."
    tool["inputSchema"] = _with_options(_root_schema(msgspec.json.schema(analysis.input_type)))
    if (returned := output_type(analysis)) is not None:
        tool["outputSchema"] = _root_schema(msgspec.json.schema(returned))
    hints = {name: getattr(options, field) for name, field in _HINTS.items()}
    if known := {name: value for name, value in hints.items() if value is not None}:
        tool["annotations"] = known
    return tool


def output_type(analysis: Analysis) -> Any:
    """Return the return hint of an analysis where it is a struct, a dataclass or a typed dict; else None."""
    return _returned(analysis.function)


@functools.cache
def _returned(function: Function) -> Any:
    try:
        returned = typing.get_type_hints(function, include_extras=True).get("return")
        if not _has_fields(returned):
            return None
        msgspec.json.schema(returned)
    except (NameError, TypeError):  # a hint that cannot be resolved or described
        return None
    return returned


def _has_fields(kind: Any) -> bool:
    if not isinstance(kind, type) or kind is Result:  # which holds the result, and says nothing of its shape
        return False
    return issubclass(kind, msgspec.Struct) or dataclasses.is_dataclass(kind) or typing.is_typeddict(kind)


def _with_options(schema: dict[str, Any]) -> dict[str, Any]:
    """Return an input schema with the options of a call, which come after the parameters."""
    options = _root_schema(msgspec.json.schema(LaterStart))
    described = {**options, "description": "Only to start later; leave it out to start now."}
    return {**schema, "properties": {**schema["properties"], OPTIONS: described}}


def _root_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with an object at its root: what msgspec puts there is a reference to it."""
    definitions = dict(schema.get("$defs", {}))
    name = schema.get("$ref", "").removeprefix(_REFERENCE)
    if name not in definitions:
        return schema
    root: dict[str, Any] = dict(definitions[name])
    if f'"{_REFERENCE}{name}"'.encode() not in msgspec.json.encode(definitions):
        del definitions[name]  # nothing else refers to it
    root.setdefault("properties", {})
    return {**root, "$defs": definitions} if definitions else root
