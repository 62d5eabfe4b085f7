"""An exception of an analysis as a failure that can be stored, with where it went wrong for operators."""

import sysconfig
import traceback
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import msgspec

from langlauf.domain.outcome import Failure, classify
from langlauf.domain.redact import clean_tail

_LONGEST_TRACE = 8_000
_PACKAGE = str(Path(__file__).parents[1])
#: Analyses that come with this program are an application's all the same.
_BUNDLED = str(Path(__file__).parents[1] / "bundled")
_STANDARD = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib"))
_INSTALLED = ("site-packages", "dist-packages")


def failure_of(error: BaseException, transient: tuple[type[BaseException], ...]) -> Failure:
    """What went wrong, by name."""
    failure = classify(error, transient)
    return msgspec.structs.replace(failure, meta={**failure.meta, "trace": trace_of(error)})


def trace_of(error: BaseException) -> str:
    """Where it went wrong: frames of the application, no values of variables, no secrets, not endless."""
    told = traceback.TracebackException.from_exception(error)
    for one in _all_of(told):
        one.stack = _Folded(one.stack)
    return clean_tail("".join(told.format()), _LONGEST_TRACE)


class _Folded(traceback.StackSummary):
    """Frames of which those of libraries are counted, not shown; the last one is shown, whoever's it is."""

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


def _all_of(told: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    """An exception, what it came from, and what it is made of; each knows its parts only once."""
    waiting: list[traceback.TracebackException | None] = [told]
    while waiting:
        one = waiting.pop()
        if one is not None:
            yield one
            waiting += [one.__cause__, one.__context__, *(one.exceptions or ())]


def _is_library(frame: traceback.FrameSummary) -> bool:
    name = frame.filename
    if name.startswith(_BUNDLED):
        return False
    return (
        name.startswith((_PACKAGE, "<frozen "))
        or any(part in _INSTALLED for part in Path(name).parts)
        or name.startswith(_STANDARD)
    )
