"""Failed jobs grouped by cause: the same analysis, error code and message pattern."""

import hashlib
import re
from collections.abc import Iterable, Sequence

import msgspec

from langlauf.domain.instant import Instant

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
