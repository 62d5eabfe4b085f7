"""An exception of an analysis as a failure that can be stored, with where it went wrong for operators."""

import traceback

import msgspec

from langlauf.domain.outcome import Failure, classify
from langlauf.domain.redact import clean_text

_LONGEST_TRACE = 8_000


def failure_of(error: BaseException, transient: tuple[type[BaseException], ...]) -> Failure:
    """What went wrong, by name."""
    failure = classify(error, transient)
    return msgspec.structs.replace(failure, meta={**failure.meta, "trace": _trace(error)})


def _trace(error: BaseException) -> str:
    """Where it went wrong: no values of variables, no secrets, not endless."""
    return clean_text("".join(traceback.format_exception(error))[-_LONGEST_TRACE:], _LONGEST_TRACE)
