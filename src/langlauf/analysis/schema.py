"""The input schema of an analysis, made from the type hints of its function."""

import copy
import inspect
import re
import typing
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import msgspec

from langlauf.analysis.input_flaw import InputFlaw, flaw_of
from langlauf.domain.errors import LanglaufError, RegistrationError

#: Names that have another meaning in a request.
RESERVED = frozenset({"analysis", "input", "options", "timeout_seconds"})


class InvalidInput(LanglaufError):
    """The input of a request does not fit: `field` says where, `message` why.

    `code` and `limit` say the latter to pages, which have their own words; `flaw` has more, if a schema was not kept.
    """

    def __init__(
        self, field: str, message: str, code: str = "", limit: str = "", *, flaw: InputFlaw | None = None
    ) -> None:
        super().__init__(message)
        self.field = field
        self.message = message
        self.code = code
        self.limit = limit
        self.flaw = flaw


def input_type(function: Callable[..., Any], name: str) -> type[msgspec.Struct]:
    """Return a struct with one field per parameter after the job handle, named after the analysis."""
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise RegistrationError(f"{name}: a type hint cannot be resolved: {error}") from error
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        raise RegistrationError(f"{name}: the first parameter must be the job handle, as in {name}(job: Job, …)")
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for parameter in parameters[1:]:
        _check(name, parameter)
        kind = hints.get(parameter.name, Any)
        if parameter.default is parameter.empty:
            fields.append((parameter.name, kind))
        else:
            fields.append((parameter.name, *_default(name, parameter, kind)))
    title = "".join(word.capitalize() for word in re.split(r"[_.-]", name)) + "Input"
    try:
        made = msgspec.defstruct(title, fields, kw_only=True, forbid_unknown_fields=True, frozen=True)
        msgspec.json.schema(made)  # a hint that cannot be checked is found here, not at the first request
    except TypeError as error:
        raise RegistrationError(f"{name}: {error}") from error
    return made


def _default(name: str, parameter: inspect.Parameter, kind: Any) -> tuple[Any, Any]:
    """Return the type and the default of a field. The default must fit: it is stored with the job and parsed again."""
    default = parameter.default
    try:
        stored = msgspec.to_builtins(default)
        msgspec.convert(stored, kind)
    except (msgspec.MsgspecError, TypeError) as error:
        hint = "; write `… | None`" if default is None else ""
        raise RegistrationError(
            f"{name}: the default of {parameter.name} does not fit its type: {error}{hint}"
        ) from error
    mutable = isinstance(default, msgspec.Struct) and not default.__struct_config__.frozen
    if not mutable and not (default and isinstance(default, list | dict | set | bytearray)):
        return kind, default
    # msgspec copies no such default by itself, and leaves one that a function makes out of the schema.
    shown = msgspec.Meta(extra_json_schema={"default": stored})
    return Annotated[kind, shown], msgspec.field(default_factory=partial(copy.deepcopy, default))


def _check(name: str, parameter: inspect.Parameter) -> None:
    if parameter.name in RESERVED:
        raise RegistrationError(f"{name}: a parameter may not be called {parameter.name}; requests use that name")
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise RegistrationError(f"{name}: {parameter} cannot be given by name in a request; use a named parameter")


def read_input(kind: type[msgspec.Struct], values: Any, prefix: str = "") -> Any:
    """Parse the values of a request; the error names the field, below the prefix."""
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        flaw = flaw_of(error, values, kind)
        field = f"{prefix}{flaw.field}" if flaw.field else prefix.rstrip(".")
        raise InvalidInput(field, flaw.sentence(prefix), flaw=flaw) from None


def canonical_json(value: msgspec.Struct) -> str:
    """Return the input with defaults and sorted names: equal inputs give equal texts."""
    return msgspec.json.encode(value, order="sorted").decode()
