"""Converts exceptions of analyses to failures that can be stored, with a trace for operators, and back."""

import sysconfig
import traceback
from itertools import groupby
from pathlib import Path

import msgspec

from langlauf.domain.errors import ERROR_TYPE, OWN_FACTS, AnalysisError, TransientError, sentence_meta, sentence_text
from langlauf.domain.failure import LED_TO, LIBRARY_FRAMES, LIBRARY_FRAMES_TO_THE_LAST, ONLY_LIBRARY_FRAMES
from langlauf.domain.outcome import Failure, classify
from langlauf.domain.redact import clean_tail, clean_text, exception_text

_LONGEST_TRACE = 8_000
_LONGEST_NAME = 200
#: The innermost frames of each exception, and the nearest of its causes and group members.
_MOST_FRAMES = 60
_MOST_ERRORS = 10
_HEAD = "Traceback (most recent call last):\n"
_PACKAGE = str(Path(__file__).parents[1])
#: Bundled analyses count as application code.
_BUNDLED = str(Path(__file__).parents[1] / "bundled")
_STANDARD = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib"))
_INSTALLED = ("site-packages", "dist-packages")


def failure_of(error: BaseException, transient: tuple[type[BaseException], ...]) -> Failure:
    """Classify an exception. Does not raise, even if formatting the exception does."""
    try:
        failure = classify(error, transient)
        return msgspec.structs.replace(failure, meta={**failure.meta, "trace": format_trace(error)})
    except BaseException:  # noqa: BLE001 - formatting runs code of the analysis, which may even raise SystemExit
        name = clean_text(type(error).__name__, _LONGEST_NAME)
        facts = {**sentence_meta("unreadable_error", error=name), ERROR_TYPE: name}
        message = sentence_text("unreadable_error", error=name)
        return Failure(code="internal", message=message, transient=False, meta=facts)


def format_trace(error: BaseException) -> str:
    """Return the frames of the application, without values of variables and secrets, of bounded length.

    The traceback module would format whole chains and arguments, which may be of any size.
    """
    parts: list[str] = []
    waiting: list[BaseException] = [error]
    seen: set[int] = set()
    while waiting and len(parts) < _MOST_ERRORS:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        frames = "".join(_FoldedTrace(traceback.extract_tb(one.__traceback__, -_MOST_FRAMES)).format())
        parts.append(f"{_HEAD if frames else ''}{frames}{exception_text(one)}\n")
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions[:_MOST_ERRORS]
        before = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
        waiting += [] if before is None else [before]
    return clean_tail(LED_TO.join(reversed(parts)), _LONGEST_TRACE)


class _FoldedTrace(traceback.StackSummary):
    """Frames without those of libraries, which are counted; the last frame is always shown."""

    def format(self) -> list[str]:
        if all(_is_library(frame) for frame in self):
            return [_count(ONLY_LIBRARY_FRAMES, list(self)), *super().format()] if self else []
        groups = [(library, list(group)) for library, group in groupby(self, _is_library)]
        lines: list[str] = []
        for library, frames in groups[:-1]:
            lines += [_count(LIBRARY_FRAMES, frames)] if library else traceback.StackSummary(frames).format()
        library, frames = groups[-1]
        if library:
            lines.append(_count(LIBRARY_FRAMES_TO_THE_LAST, frames))
        return lines + traceback.StackSummary(frames[-1:] if library else frames).format()


def _count(text: str, frames: list[traceback.FrameSummary]) -> str:
    return text.format(frames=f"{len(frames)} frame{'' if len(frames) == 1 else 's'}")


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
    """Return the failure of another process as an exception that is classified as the same failure."""
    kind = TransientError if failure.transient else AnalysisError
    error = kind(failure.message, code=failure.code, hint=failure.hint, meta=failure.meta)
    error.own_facts = {name: failure.meta[name] for name in OWN_FACTS if name in failure.meta}
    return error
