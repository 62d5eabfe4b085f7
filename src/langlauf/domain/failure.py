"""Failures for people: the stack trace of a failed attempt, and failed jobs grouped by cause."""

import hashlib
import re
from collections.abc import Iterable, Sequence

import msgspec

from langlauf.domain.instant import Instant

#: Between the trace of a cause and that of the error it led to.
LED_TO = "\nThis led to:\n\n"
#: Stands for frames of libraries, which are left out except the last of all.
LIBRARY_FRAMES = "  [{frames} of libraries]\n"
LIBRARY_FRAMES_TO_THE_LAST = "  [{frames} of libraries, the last of which is:]\n"
#: Above frames of which none is the application's.
ONLY_LIBRARY_FRAMES = "  [{frames}, all of libraries:]\n"
#: How the two lines end below which no frame is the application's.
_ONLY_LIBRARIES_FOLLOW = ("the last of which is:]", "all of libraries:]")
_FRAME = re.compile(r'  File "(?P<file>[^"\n]*)", line (?P<line>\d+), in (?P<function>[^\n]*)')


class CodePlace(msgspec.Struct, frozen=True):
    """A line of the application's code."""

    file: str
    line: int
    function: str
    #: the source, where it could be read
    code: str = ""

    @property
    def short(self) -> str:
        """File, without its folder, and line."""
        name = self.file.replace("\\", "/").rpartition("/")[2]
        return f"{name}:{self.line}"


class ErrorCause(msgspec.Struct, frozen=True, kw_only=True):
    """Why an attempt failed."""

    #: type and text of the exception
    error: str
    #: where the application raised it, or called the library that did; None where no frame is the application's
    place: CodePlace | None
    trace: str

    @property
    def kind(self) -> str:
        """The type of the exception."""
        return self.error.partition(":")[0]


def read_cause(trace: str) -> ErrorCause:
    """Read a stored trace. The place is that of the last error with a frame of the application."""
    parts = trace.split(LED_TO)
    places = [place for part in parts if (place := _own_place(part.split("\n"))) is not None]
    return ErrorCause(error=_raised(parts[-1].split("\n")), place=places[-1] if places else None, trace=trace)


def _own_place(lines: list[str]) -> CodePlace | None:
    """Return the innermost frame of the application: frames of libraries are marked."""
    end = next((number for number, line in enumerate(lines) if line.endswith(_ONLY_LIBRARIES_FOLLOW)), len(lines))
    for number in reversed(range(end)):
        if found := _FRAME.fullmatch(lines[number]):
            following = lines[number + 1] if number + 1 < end else ""
            code = following.strip() if following.startswith("    ") else ""
            # The first line of a call over several lines says nothing, such as `raise PermanentError(`.
            code = "" if code.endswith("(") else code
            return CodePlace(found["file"], int(found["line"]), found["function"], code)
    return None


def _raised(lines: list[str]) -> str:
    """Return the text after the last frame and its source."""
    frames = [number for number, line in enumerate(lines) if _FRAME.fullmatch(line)]
    after = lines[frames[-1] + 1 :] if frames else lines
    while after and after[0].startswith("    "):
        after = after[1:]
    return "\n".join(after).strip()


# -- groups by cause ---------------------------------------------------------------------------------------------------

#: What varies between failures of one cause, the longest first: URLs and paths, quoted text, and words with digits.
_VARIABLE = re.compile(
    r"""\b[a-z][a-z0-9+.-]*://[^\s'"<>]+"""
    r"""|"[^"\n]{0,200}"|(?<!\w)'[^'\n]{0,200}'(?!\w)|`[^`\n]{0,200}`|«[^»\n]{0,200}»|„[^“\n]{0,200}“"""
    r"""|(?<!\w)(?:/[\w.-]+){2,}"""
    r"""|\w*\d[\w.,:+-]*\d\w*|\w*\d\w*""",
    re.IGNORECASE,
)
PLACEHOLDER = "…"
#: Enough to show what goes wrong; grouping more would take too long.
MOST_FAILURES = 3_000
_LONGEST_SHAPE = 300
_KEY_DIGITS = 16


class FailedJob(msgspec.Struct, frozen=True):
    """A failed job, as grouping needs it."""

    job_id: str
    analysis: str
    error_code: str
    error_message: str
    queued_at: Instant
    failed_at: Instant
    #: whether it has been retried already
    repeated: bool


class FailureGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Failures of one cause. The newest one is the example."""

    #: identifies the group, also in a URL
    key: str
    analysis: str
    error_code: str
    #: the message, with a placeholder for what varies
    shape: str
    failures: list[FailedJob]

    @property
    def example(self) -> FailedJob:
        """Return the newest failure."""
        return self.failures[0]

    def messages(self, most: int) -> list[str]:
        """Return the newest messages that differ."""
        return list(dict.fromkeys(one.error_message for one in self.failures))[:most]

    @property
    def first_at(self) -> Instant:
        """Return when the first of them failed."""
        return min(one.failed_at for one in self.failures)

    @property
    def last_at(self) -> Instant:
        """Return when the last of them failed."""
        return max(one.failed_at for one in self.failures)

    @property
    def left(self) -> list[FailedJob]:
        """Return those that have not been retried."""
        return [one for one in self.failures if not one.repeated]


def message_pattern(message: str) -> str:
    """Return a message with placeholders for what varies between failures."""
    folded = _VARIABLE.sub(PLACEHOLDER, message[:_LONGEST_SHAPE])
    return " ".join(folded.split())


def group_failures(failures: Iterable[FailedJob]) -> list[FailureGroup]:
    """Return the groups, the largest first; failures are given newest first, and stay so within a group."""
    shapes: dict[str, str] = {}
    found: dict[tuple[str, str, str], list[FailedJob]] = {}
    for one in failures:
        shape = shapes.get(one.error_message)
        if shape is None:
            shape = shapes[one.error_message] = message_pattern(one.error_message)
        found.setdefault((one.analysis, one.error_code, shape), []).append(one)
    groups = [
        FailureGroup(key=_key(cause), analysis=cause[0], error_code=cause[1], shape=cause[2], failures=alike)
        for cause, alike in found.items()
    ]
    return sorted(groups, key=lambda group: (-len(group.failures), -group.example.queued_at, group.key))


def _key(cause: tuple[str, str, str]) -> str:
    return hashlib.sha256("\0".join(cause).encode()).hexdigest()[:_KEY_DIGITS]


def counts_over_time(instants: Sequence[Instant], start: Instant, end: Instant, parts: int) -> list[int]:
    """Return how many times fall into each of so many equal parts; those outside count at the ends."""
    counts = [0] * parts
    width = max(1, end - start)
    for instant in instants:
        counts[min(parts - 1, max(0, (instant - start) * parts // width))] += 1
    return counts
