"""The input schema of an analysis, made from the type hints of its function, and why a value does not fit it."""

import copy
import datetime as dt
import difflib
import inspect
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache, partial
from typing import Annotated, Any
from uuid import UUID

import msgspec

from langlauf.domain.errors import LanglaufError, RegistrationError

# -- why a value does not fit ------------------------------------------------------------------------------------------
# The check itself is msgspec's, whose errors are texts. They have no code, and speak of its own types; so a value that
# it refused is compared with its JSON schema, to say why in words of the request.

Schema = Mapping[str, Any]
Place = tuple[str | int, ...]
_REF = "#/components/schemas/{name}"


class FlawCode(StrEnum):
    """What is wrong with a value. Pages have a text for each, commands and the API a sentence."""

    MISSING = "missing"
    UNKNOWN = "unknown"
    TEXT = "text"
    WHOLE = "whole"
    NUMBER = "number"
    YES_NO = "yes_no"
    LIST = "list"
    RECORD = "record"
    NOTHING = "nothing"
    DATE = "date"
    TIME = "time"
    FORMAT = "format"
    CHOICE = "choice"
    SHORTEST = "shortest"
    LONGEST = "longest"
    FEWEST = "fewest"
    MOST = "most"
    AT_LEAST = "at_least"
    AT_MOST = "at_most"
    OVER = "over"
    UNDER = "under"
    MULTIPLE = "multiple"
    PATTERN = "pattern"
    #: a rule of the author of the analysis, in the author's words
    OTHER = "other"


_SENTENCES = {
    FlawCode.MISSING: "{name} is required",
    FlawCode.TEXT: "{name} must be a text",
    FlawCode.WHOLE: "{name} must be a whole number",
    FlawCode.NUMBER: "{name} must be a number",
    FlawCode.YES_NO: "{name} must be true or false",
    FlawCode.LIST: "{name} must be a list",
    FlawCode.RECORD: "{name} must be an object",
    FlawCode.NOTHING: "{name} must be null",
    FlawCode.DATE: "{name} must be a date, such as 2026-03-31",
    FlawCode.TIME: "{name} must be a date and time, such as 2026-03-31T14:00:00Z",
    FlawCode.FORMAT: "{name} must be of the format {limit}",
    FlawCode.CHOICE: "{name} must be one of {limit}",
    FlawCode.SHORTEST: "{name} must have at least {limit} characters",
    FlawCode.LONGEST: "{name} must have at most {limit} characters",
    FlawCode.FEWEST: "{name} must have at least {limit} values",
    FlawCode.MOST: "{name} must have at most {limit} values",
    FlawCode.AT_LEAST: "{name} must be {limit} or more",
    FlawCode.AT_MOST: "{name} must be {limit} or less",
    FlawCode.OVER: "{name} must be more than {limit}",
    FlawCode.UNDER: "{name} must be less than {limit}",
    FlawCode.MULTIPLE: "{name} must be a multiple of {limit}",
    FlawCode.PATTERN: "{name} must match the pattern {limit}",
    FlawCode.OTHER: "{name}: {limit}",
}


class InputFlaw(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong, where, and the limit that was not kept."""

    code: FlawCode
    place: Place = ()
    limit: str = ""
    #: of an unknown name: the known ones beside it
    known: tuple[str, ...] = ()

    @property
    def field(self) -> str:
        """The place as the API names it, such as `places[0].x`; empty for the whole."""
        text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.place)
        return text.removeprefix(".")

    @property
    def nearest(self) -> str:
        """Of an unknown name the known one that was probably meant, or nothing."""
        found = difflib.get_close_matches(str(self.place[-1]), self.known, n=1) if self.place else []
        return found[0] if found else ""

    def sentence(self, prefix: str = "") -> str:
        """Return the flaw in English, with the field's name below a prefix."""
        name = f"{prefix}{self.field}" or "the input"
        if self.code is not FlawCode.UNKNOWN:
            return f"{_SENTENCES[self.code].format(name=name, limit=self.limit)}."
        hint = f"did you mean {self.nearest}?" if self.nearest else f"known are {', '.join(self.known) or 'none'}."
        return f"There is no parameter {name}; {hint}"


def flaw_of(error: msgspec.ValidationError, value: Any, kind: Any) -> InputFlaw:
    """Return why msgspec refused a value for a type."""
    schema, components = _schema_of(kind)
    found = find_flaw(value, schema, components)
    if found is not None:
        return found
    # Schemas do not have it: such as what `__post_init__` raises. The words are those of the analysis.
    text, _, path = str(error).partition(" - at `$")
    name = path.removeprefix(".").rstrip("`")
    if _is_time(kind, name):
        return InputFlaw(code=FlawCode.TIME, place=(name,))
    return InputFlaw(code=FlawCode.OTHER, place=(name,) if name else (), limit=text.replace("`", "").rstrip("."))


def _is_time(kind: Any, name: str) -> bool:
    """Whether a field is a date and time: schemas name that format only where a zone is demanded."""
    info = msgspec.inspect.type_info(kind)
    if isinstance(info, msgspec.inspect.StructType):
        info = next((field.type for field in info.fields if field.encode_name == name), info)
    kinds = info.types if isinstance(info, msgspec.inspect.UnionType) else (info,)
    return any(isinstance(one, msgspec.inspect.DateTimeType) for one in kinds)


@lru_cache(maxsize=256)
def _schema_of(kind: Any) -> tuple[Schema, Mapping[str, Schema]]:
    [schema], components = msgspec.json.schema_components([kind], ref_template=_REF)
    return schema, components


def find_flaw(value: Any, schema: Schema, components: Mapping[str, Schema], place: Place = ()) -> InputFlaw | None:
    """Return the first difference between a value and a schema, or None."""
    if ref := schema.get("$ref"):
        schema = {**components.get(ref.rpartition("/")[2], {}), **{k: v for k, v in schema.items() if k != "$ref"}}
    if alternatives := schema.get("anyOf"):
        return _flaw_of_all(value, alternatives, components, place)
    if "enum" in schema or "const" in schema:
        choices = schema.get("enum", [schema.get("const")])
        return None if value in choices else _flaw(FlawCode.CHOICE, place, _listed(choices))
    named = schema.get("type")
    if not isinstance(named, str) or named not in _TYPES:
        return None
    fits, code = _TYPES[named]
    if not fits(value):
        return _flaw(code, place)
    return next(_PARTS[named](value, schema, components, place), None) if named in _PARTS else None


def _flaw_of_all(
    value: Any, alternatives: list[Schema], components: Mapping[str, Schema], place: Place
) -> InputFlaw | None:
    """Return None where one alternative fits; else the flaw of the one that comes closest."""
    flaws = []
    for one in alternatives:
        flaw = find_flaw(value, one, components, place)
        if flaw is None:
            return None
        if one.get("type") != "null":
            flaws.append(flaw)
    # An alternative of the right type knows more than one of another.
    closest = (flaw for flaw in flaws if flaw.code not in _TYPE_CODES or flaw.place != place)
    return next(closest, flaws[0] if flaws else _flaw(FlawCode.NOTHING, place))


def _flaws_of_text(value: str, schema: Schema, _: object, place: Place) -> Iterator[InputFlaw]:
    if len(value) < schema.get("minLength", 0):
        yield _flaw(FlawCode.SHORTEST, place, schema["minLength"])
    if len(value) > schema.get("maxLength", len(value)):
        yield _flaw(FlawCode.LONGEST, place, schema["maxLength"])
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield _flaw(FlawCode.PATTERN, place, schema["pattern"])
    code, kind = _FORMATS.get(schema.get("format", ""), (None, None))
    if code is not None and not _has_format(value, kind):
        yield _flaw(code, place, schema["format"])


def _has_format(value: str, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _flaws_of_number(value: float, schema: Schema, _: object, place: Place) -> Iterator[InputFlaw]:
    for name, (code, fits) in _BOUNDS.items():
        if name in schema and not fits(value, schema[name]):
            yield _flaw(code, place, schema[name])


def _flaws_of_list(
    value: list[Any], schema: Schema, components: Mapping[str, Schema], place: Place
) -> Iterator[InputFlaw]:
    if len(value) < schema.get("minItems", 0):
        yield _flaw(FlawCode.FEWEST, place, schema["minItems"])
    if len(value) > schema.get("maxItems", len(value)):
        yield _flaw(FlawCode.MOST, place, schema["maxItems"])
    first = schema.get("prefixItems", [])
    rest = schema.get("items")
    for number, item in enumerate(value):
        inner = first[number] if number < len(first) else rest
        if isinstance(inner, Mapping) and (flaw := find_flaw(item, inner, components, (*place, number))):
            yield flaw


def _flaws_of_record(
    value: dict[str, Any], schema: Schema, components: Mapping[str, Schema], place: Place
) -> Iterator[InputFlaw]:
    fields = schema.get("properties", {})
    further = schema.get("additionalProperties", True)
    for name in value:
        if name not in fields and further is False:
            yield InputFlaw(code=FlawCode.UNKNOWN, place=(*place, name), known=tuple(fields))
    for name in schema.get("required", ()):
        if name not in value:
            yield _flaw(FlawCode.MISSING, (*place, name))
    for name, item in value.items():
        inner = fields.get(name, further)
        if isinstance(inner, Mapping) and (flaw := find_flaw(item, inner, components, (*place, name))):
            yield flaw


def _flaw(code: FlawCode, place: Place, limit: object = "") -> InputFlaw:
    text = str(limit)
    return InputFlaw(code=code, place=place, limit=text.removesuffix(".0") if isinstance(limit, float) else text)


def _listed(choices: list[Any]) -> str:
    return ", ".join(choice if isinstance(choice, str) else msgspec.json.encode(choice).decode() for choice in choices)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: dict[str, tuple[Callable[[Any], bool], FlawCode]] = {
    "string": (lambda value: isinstance(value, str), FlawCode.TEXT),
    "integer": (lambda value: isinstance(value, int) and not isinstance(value, bool), FlawCode.WHOLE),
    "number": (_is_number, FlawCode.NUMBER),
    "boolean": (lambda value: isinstance(value, bool), FlawCode.YES_NO),
    "array": (lambda value: isinstance(value, list | tuple), FlawCode.LIST),
    "object": (lambda value: isinstance(value, dict), FlawCode.RECORD),
    "null": (lambda value: value is None, FlawCode.NOTHING),
}
_TYPE_CODES = frozenset(code for _, code in _TYPES.values())
#: Formats that msgspec checks, and the type for each.
_FORMATS: dict[str, tuple[FlawCode, Any]] = {
    "date": (FlawCode.DATE, dt.date),
    "date-time": (FlawCode.TIME, dt.datetime),
    "time": (FlawCode.FORMAT, dt.time),
    "duration": (FlawCode.FORMAT, dt.timedelta),
    "uuid": (FlawCode.FORMAT, UUID),
}
_PARTS: dict[str, Callable[[Any, Schema, Mapping[str, Schema], Place], Iterator[InputFlaw]]] = {
    "string": _flaws_of_text,
    "integer": _flaws_of_number,
    "number": _flaws_of_number,
    "array": _flaws_of_list,
    "object": _flaws_of_record,
}
_BOUNDS: dict[str, tuple[FlawCode, Callable[[float, float], bool]]] = {
    "minimum": (FlawCode.AT_LEAST, lambda value, limit: value >= limit),
    "maximum": (FlawCode.AT_MOST, lambda value, limit: value <= limit),
    "exclusiveMinimum": (FlawCode.OVER, lambda value, limit: value > limit),
    "exclusiveMaximum": (FlawCode.UNDER, lambda value, limit: value < limit),
    "multipleOf": (FlawCode.MULTIPLE, lambda value, limit: value % limit == 0),
}


# -- schemas from type hints -------------------------------------------------------------------------------------------

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
