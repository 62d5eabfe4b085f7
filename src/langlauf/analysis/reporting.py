"""What an analysis may say about its progress, and what is made of it."""

import contextlib
import math
import re
from string import Formatter
from typing import Any

from langlauf.analysis.payload import is_small
from langlauf.domain.redact import bounded_repr, clean_text

_LONGEST_STEP = 200
#: A width in a format that is worth nothing to readers and costs memory, or one that comes out of the item.
_TOO_WIDE = re.compile(r"\{|[0-9]{4}")
_WHOLE_ITEM = ("", "0")
_SHOWN_IN_PART = frozenset({str, dict, list, tuple, set, frozenset})


def usable_percent(number: float | None) -> float | None:
    """A report of progress that means something."""
    if number is None:
        return None
    percent = float(number)
    if not math.isfinite(percent):
        raise ValueError(f"progress must be a number from 0 to 100, not {number}")
    return percent


def usable_step(text: str | None) -> str | None:
    """What a step says, fit to be stored and shown on one line."""
    return None if text is None else clean_text(str(text), _LONGEST_STEP)


def step_for(step: str | None, item: Any) -> str | None:
    """The step with the item in it. Braces that mean nothing are braces: no step breaks a job.

    Of a large item not all is read: this may happen on the worker's event loop.
    """
    if step is None:
        return None
    with contextlib.suppress(Exception):
        return _filled(step, item)
    with contextlib.suppress(Exception):
        return step.replace("{}", str(_brief(item)))
    return step  # not even the item can be written


def _filled(step: str, item: Any) -> str:
    """The step as a format; ValueError where it asks for a width that is worth nothing."""
    fields = [(name, form) for _, name, form, _ in Formatter().parse(step)]
    if any(form and _TOO_WIDE.search(form) for _, form in fields):
        raise ValueError("a step has no room for that")
    return step.format(_brief(item) if any(name in _WHOLE_ITEM for name, _ in fields) else item)


def _brief(item: Any) -> Any:
    """The item, or as much of a large one as a step has room for."""
    if type(item) not in _SHOWN_IN_PART or is_small(item):
        return item
    return item[:_LONGEST_STEP] if isinstance(item, str) else bounded_repr(item)
