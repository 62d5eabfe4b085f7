"""A value as a person would write it into a form."""

from typing import Any

import msgspec

from langlauf.ui.forms.entry import Kind

#: A ticked box.
TICKED = "on"


def text_of(kind: Kind, value: Any) -> str:
    """The text of a value; what does not fit the kind is JSON, so that nothing is lost."""
    if kind is Kind.FLAG:
        return TICKED if value is True else ""
    if kind in (Kind.JSON, Kind.CHOICE):
        return _json(value)
    if kind is Kind.LINES and isinstance(value, list | tuple | set | frozenset):
        return "\n".join(_plain(item) for item in value)
    return _plain(value)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
