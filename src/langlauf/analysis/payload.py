"""Values of an analysis as JSON text that every store can keep."""

from typing import Any

import msgspec

from langlauf.domain.errors import ResultTooLarge, ResultUnstorable
from langlauf.domain.text import first_flaw

#: Results may be nested deeper than requests; this only bounds what readers must cope with.
_DEEPEST_RESULT = 500


def _refuse(value: Any) -> Any:
    raise ResultUnstorable(f"a value of type {type(value).__name__} cannot be written as JSON")


def encode(value: Any, largest: int) -> str:
    """The value as JSON text; what cannot be kept raises, and never becomes something else silently."""
    try:
        plain = msgspec.to_builtins(value, enc_hook=_refuse)
        if flaw := first_flaw(plain, _DEEPEST_RESULT):
            raise ResultUnstorable(flaw)
        data = msgspec.json.encode(plain)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise ResultUnstorable(f"the value cannot be written as JSON: {error}") from error
    if len(data) > largest:
        raise ResultTooLarge(f"the value has {len(data):,} bytes, the limit is {largest:,}")
    return data.decode()


def decode(text: str) -> Any:
    """The value behind stored JSON text."""
    return msgspec.json.decode(text)
