"""What an analysis may say about its progress, and what is made of it."""

import math
import re
from string import Formatter
from typing import Any

from langlauf.analysis.payload import is_small
from langlauf.domain.redact import clean_text, shown

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


def step_for(step: str, item: Any) -> str:
    """The step with the item in it. Of a large item not all is read: this may happen on the worker's event loop."""
    whole = False
    for _, name, form, _ in Formatter().parse(step):
        if form and _TOO_WIDE.search(form):
            raise ValueError(f"a step has no room for {{{name}:{form[:20]}}}; give a width under 1000, or none")
        whole = whole or name in _WHOLE_ITEM
    if whole and type(item) in _SHOWN_IN_PART and not is_small(item):
        item = item[:_LONGEST_STEP] if isinstance(item, str) else shown(item)
    return step.format(item)
