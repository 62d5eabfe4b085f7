"""An exception of an analysis as a failure that can be stored, with where it went wrong for operators."""

import traceback

import msgspec

from langlauf.domain.outcome import Failure, classify
from langlauf.domain.redact import clean_text, words_of

_LONGEST_TRACE = 8_000
_LONGEST_NAME = 200
#: Of each exception the innermost frames; of those that led to it, or are members of it, the nearest.
_MOST_FRAMES = 60
_MOST_ERRORS = 10
_BEFORE = "\nThis led to:\n\n"


def failure_of(error: BaseException, transient: tuple[type[BaseException], ...]) -> Failure:
    """What went wrong, by name. It does not raise, whatever the exception does when it is looked at."""
    try:
        failure = classify(error, transient)
        return msgspec.structs.replace(failure, meta={**failure.meta, "trace": _trace(error)})
    except BaseException:  # noqa: BLE001 - its own code: also one that tries to end the program
        message = f"{type(error).__name__}, which cannot be shown"
        return Failure(code="internal", message=clean_text(message, _LONGEST_NAME), transient=False)


def _trace(error: BaseException) -> str:
    """Where it went wrong: no values of variables, no secrets, not endless.

    Python's own text would read whole chains and whole arguments, which may be of any size.
    """
    parts: list[str] = []
    waiting: list[BaseException] = [error]
    seen: set[int] = set()
    while waiting and len(parts) < _MOST_ERRORS:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        frames = "".join(traceback.format_tb(one.__traceback__, -_MOST_FRAMES))
        parts.append(f"Traceback (most recent call last):\n{frames}{words_of(one)}\n")
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions[:_MOST_ERRORS]
        before = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
        waiting += [] if before is None else [before]
    return clean_text(_BEFORE.join(reversed(parts))[-_LONGEST_TRACE:], _LONGEST_TRACE)
