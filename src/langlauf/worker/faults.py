"""Fault injection for end-to-end tests: certain queries end in a known way, at once."""

from collections.abc import Mapping
from typing import Any

import msgspec

from langlauf.clock import new_id
from langlauf.domain.errors import RetryHint
from langlauf.domain.outcome import Completed, Failed

_FAILURES: Mapping[str, tuple[str, RetryHint]] = {
    "__timeout__": ("timeout", "retry_with_backoff"),
    "__internal__": ("internal", "retry_with_backoff"),
    "__address_intel__": ("address_intel", "check_input_and_retry"),
}
_SUCCESS = "__ok__"


def injected(values: Mapping[str, Any]) -> Completed | Failed | None:
    """The end that the input asks for, or None where it is an ordinary one."""
    query = values.get("query")
    if query == _SUCCESS:
        payload = msgspec.json.encode({"forced": True, "query": query}).decode()
        return Completed(result_id=new_id(), payload=payload)
    if not isinstance(query, str) or query not in _FAILURES:
        return None
    code, hint = _FAILURES[query]
    return Failed(
        code=code,
        message=f"forced {code} by fault injection",
        retryable=hint == "retry_with_backoff",
        hint=hint,
    )
