"""Keys as rows keep them."""

from collections.abc import Iterable, Sequence
from typing import Any

from langlauf.domain.access import Scope
from langlauf.domain.keys import Key

_SCOPES = Key.__struct_fields__.index("scopes")


def scopes_text(scopes: Iterable[Scope]) -> str:
    """Scopes as one text."""
    return " ".join(sorted(scopes))


def key_from(row: Sequence[Any]) -> Key:
    """A key from its columns."""
    values = list(row)
    values[_SCOPES] = frozenset(Scope(word) for word in values[_SCOPES].split())
    return Key(**dict(zip(Key.__struct_fields__, values, strict=True)))
