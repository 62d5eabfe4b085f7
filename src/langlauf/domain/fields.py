"""The table of a job's fields, read by those who follow it: names of one kind, and types for other ends."""

from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from langlauf.domain.job import FieldMark, JobRecord, VisibleJob

#: What clients see comes first.
JOB_FIELDS = JobRecord.__struct_fields__
VISIBLE_FIELDS = VisibleJob.__struct_fields__


def _marked(mark: FieldMark) -> frozenset[str]:
    return frozenset(field.name for field in msgspec.structs.fields(JobRecord) if mark in get_args(field.type))


#: What people or analyses wrote.
FREE_TEXT_FIELDS = _marked(FieldMark.WORDS)
#: What says something about the job wherever it is kept.
EXPORTED_FIELDS = tuple(name for name in JOB_FIELDS if name not in _marked(FieldMark.HERE))


def is_time_field(name: str) -> bool:
    """Whether a field of a record has a point in time."""
    return name.endswith("_at")


def field_descriptions() -> dict[str, str]:
    """What the reference says of each field that clients see."""
    found = {}
    for field in msgspec.structs.fields(VisibleJob):
        [found[field.name]] = [word for word in get_args(field.type) if isinstance(word, str)]
    return found


def field_defaults(names: tuple[str, ...] = JOB_FIELDS) -> dict[str, Any]:
    """What a field is where it is not given; those that always are have none."""
    known = {field.name: field.default for field in msgspec.structs.fields(JobRecord) if not field.required}
    return {name: known[name] for name in names if name in known}


def unconstrained_type(kind: Any, *, any_word: bool = False) -> Any:
    """A type without its bounds, and, where one of some words is meant, for any word."""
    inner = get_args(kind)
    if get_origin(kind) is Annotated:
        return unconstrained_type(inner[0], any_word=any_word)
    if get_origin(kind) is Literal and any_word:
        return str
    if get_origin(kind) in (Union, UnionType):
        return Union[tuple(unconstrained_type(one, any_word=any_word) for one in inner)]  # noqa: UP007 - of a number known now
    return kind
