"""Secrets in JSON values: where a text, or a name with its text, looks like one."""

from typing import Any

from langlauf.domain.redact import MASK, is_secret_name, redact


def redact_json(value: Any) -> Any:
    """The value with everything masked that looks like a secret; equal to the value where nothing does."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [redact_json(item) for item in value]
    if isinstance(value, dict):
        return {name: _masked_under(name, item) for name, item in value.items()}
    return value


def _masked_under(name: str, item: Any) -> Any:
    """A harmless text under a telling name is a secret all the same, and so is whatever is made of several."""
    if isinstance(item, str | list | dict) and item and is_secret_name(name):
        return MASK
    return redact_json(item)
