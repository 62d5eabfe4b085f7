"""What an analysis may say about its progress, and what is made of it."""

import contextlib
import math
from typing import Any

from langlauf.domain.redact import clean_text

_LONGEST_STEP = 200


def usable_percent(number: float | None) -> float | None:
    """A report of progress that means something."""
    if number is None:
        return None
    percent = float(number)
    if not math.isfinite(percent):
        raise ValueError(f"progress must be a number from 0 to 100, not {number}")
    return percent


def step_about(step: str | None, item: Any) -> str | None:
    """The step of one item: `{}` in it is the item. Braces that mean nothing are braces: no step can break a job."""
    if step is None:
        return None
    with contextlib.suppress(Exception):
        return step.format(item)
    with contextlib.suppress(Exception):
        return step.replace("{}", str(item))
    return step  # not even the item can be written


def usable_step(text: str | None) -> str | None:
    """What a step says, fit to be stored and shown on one line."""
    return None if text is None else clean_text(str(text), _LONGEST_STEP)
