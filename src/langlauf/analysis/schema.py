"""The input schema of an analysis, made from the type hints of its function."""

import difflib
import inspect
import re
import typing
from collections.abc import Callable
from typing import Any

import msgspec

from langlauf.domain.errors import LanglaufError, RegistrationError

#: Names that have another meaning in a request.
RESERVED = frozenset({"analysis", "input", "options", "timeout_seconds"})
_PATH = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")
_NAMED = re.compile(r"(?:missing required|contains unknown) field `(?P<name>[^`]*)`")


class InvalidInput(LanglaufError):
    """The input of a request does not fit the analysis. `field` says where."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


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
            _check_default(name, parameter, kind)
            fields.append((parameter.name, kind, parameter.default))
    title = "".join(word.capitalize() for word in re.split(r"[_.-]", name)) + "Input"
    try:
        made = msgspec.defstruct(title, fields, kw_only=True, forbid_unknown_fields=True, frozen=True)
        msgspec.json.schema(made)  # a hint that cannot be checked is found here, not at the first request
    except TypeError as error:
        raise RegistrationError(f"{name}: {error}") from error
    return made


def _check_default(name: str, parameter: inspect.Parameter, kind: Any) -> None:
    """Check that a default fits its type hint: it is stored with the job and parsed again."""
    try:
        msgspec.convert(msgspec.to_builtins(parameter.default), kind)
    except (msgspec.MsgspecError, TypeError) as error:
        hint = "; write `… | None`" if parameter.default is None else ""
        raise RegistrationError(
            f"{name}: the default of {parameter.name} does not fit its type: {error}{hint}"
        ) from error


def _check(name: str, parameter: inspect.Parameter) -> None:
    if parameter.name in RESERVED:
        raise RegistrationError(f"{name}: a parameter may not be called {parameter.name}; requests use that name")
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise RegistrationError(f"{name}: {parameter} cannot be given by name in a request; use a named parameter")


def read_input(kind: type[msgspec.Struct], values: dict[str, Any]) -> msgspec.Struct:
    """Parse the values of a request; the error names the field."""
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise input_error(str(error), kind.__struct_fields__) from None


def input_error(text: str, known: tuple[str, ...], prefix: str = "") -> InvalidInput:
    """Return an error from msgspec's text, with the field and a suggestion for an unknown name."""
    match = _PATH.search(text)
    path = match["path"] if match else ""
    message = text[: match.start()] if match else text
    if named := _NAMED.search(message):
        path = f"{path}.{named['name']}" if path else named["name"]
        if "unknown" in message:
            nearest = difflib.get_close_matches(named["name"], known, n=1)
            message += f"; did you mean `{nearest[0]}`?" if nearest else f"; known are {', '.join(known) or 'none'}"
    return InvalidInput(prefix + path if path else prefix.rstrip("."), message)


def canonical_json(value: msgspec.Struct) -> str:
    """Return the input with defaults and sorted names: equal inputs give equal texts."""
    return msgspec.json.encode(value, order="sorted").decode()
