"""An exception of an analysis as a failure that can be stored, with where it went wrong for operators."""

import sysconfig
import traceback
from itertools import groupby
from pathlib import Path

import msgspec

from langlauf.domain.errors import AnalysisError, TransientError
from langlauf.domain.outcome import Failure, classify
from langlauf.domain.redact import clean_tail, clean_text, exception_text

_LONGEST_TRACE = 8_000
_LONGEST_NAME = 200
#: Of each exception the innermost frames; of those that led to it, or are members of it, the nearest.
_MOST_FRAMES = 60
_MOST_ERRORS = 10
_HEAD = "Traceback (most recent call last):\n"
_BEFORE = "\nThis led to:\n\n"
_PACKAGE = str(Path(__file__).parents[1])
#: Analyses that come with this program are an application's all the same.
_BUNDLED = str(Path(__file__).parents[1] / "bundled")
_STANDARD = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib"))
_INSTALLED = ("site-packages", "dist-packages")


def failure_of(error: BaseException, transient: tuple[type[BaseException], ...]) -> Failure:
    """What went wrong, by name. It does not raise, whatever the exception does when it is looked at."""
    try:
        failure = classify(error, transient)
        return msgspec.structs.replace(failure, meta={**failure.meta, "trace": format_trace(error)})
    except BaseException:  # noqa: BLE001 - its own code: also one that tries to end the program
        message = f"{type(error).__name__}, which cannot be shown"
        return Failure(code="internal", message=clean_text(message, _LONGEST_NAME), transient=False)


def format_trace(error: BaseException) -> str:
    """Where it went wrong: frames of the application, no values of variables, no secrets, not endless.

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
        frames = "".join(_Folded(traceback.extract_tb(one.__traceback__, -_MOST_FRAMES)).format())
        parts.append(f"{_HEAD if frames else ''}{frames}{exception_text(one)}\n")
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions[:_MOST_ERRORS]
        before = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
        waiting += [] if before is None else [before]
    return clean_tail(_BEFORE.join(reversed(parts)), _LONGEST_TRACE)


class _Folded(traceback.StackSummary):
    """Frames of which those of libraries are counted, not shown; the last one is always shown."""

    def format(self) -> list[str]:
        if all(_is_library(frame) for frame in self):
            return super().format()
        lines: list[str] = []
        for library, group in groupby(self[:-1], _is_library):
            frames = list(group)
            lines += [_count(len(frames))] if library else traceback.StackSummary(frames).format()
        return lines + traceback.StackSummary(self[-1:]).format()


def _count(frames: int) -> str:
    return f"  [{frames} frame{'' if frames == 1 else 's'} of libraries]\n"


def _is_library(frame: traceback.FrameSummary) -> bool:
    name = frame.filename
    if name.startswith(_BUNDLED):
        return False
    return (
        name.startswith((_PACKAGE, "<frozen "))
        or any(part in _INSTALLED for part in Path(name).parts)
        or name.startswith(_STANDARD)
    )


def error_from(failure: Failure) -> AnalysisError:
    """A failure in another process as an exception in this one: whoever classifies it finds the same failure."""
    kind = TransientError if failure.transient else AnalysisError
    return kind(failure.message, code=failure.code, hint=failure.hint, meta=failure.meta)
