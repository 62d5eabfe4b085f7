"""A job in memory for plain functions: what it keeps is JSON, as in a store, and every call is written down."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from langlauf.analysis.payload import Result, decode, encode, encode_views
from langlauf.analysis.plain_job import PlainJob
from langlauf.domain.errors import PermanentError
from langlauf.domain.result import AnyView, View, views_from

Item = TypeVar("Item")
_LARGEST = 64 * 1024 * 1024


@dataclass
class RecordingJob(PlainJob):
    """What an analysis asks of its job. `kept` outlives it, as a store does."""

    kept: dict[str, str] = field(default_factory=dict)
    earlier: Callable[..., Any] = lambda **_: None
    ran: list[str] = field(default_factory=list)
    partials: list[dict[str, Any]] = field(default_factory=list)
    views: list[list[AnyView]] = field(default_factory=list)
    summaries: list[Any] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    #: stops with an error after so many computations, as a crash would
    crashes_after: int | None = None

    def checkpoint(self, key: str, function: Callable[..., Any], *args: Any) -> Any:
        """The kept value, computed where there is none."""
        if key not in self.kept:
            if self.crashes_after is not None and len(self.ran) >= self.crashes_after:
                raise ConnectionResetError("crashed")
            self.ran.append(key)
            self.kept[key] = encode(function(*args), _LARGEST)
        return decode(self.kept[key])

    def partial(
        self,
        payload: Any,
        *,
        summary: Any = None,
        progress: float | None = None,
        step: str | None = None,
        views: Sequence[View] = (),
    ) -> str:
        """Keeps the snapshot as a store would give it back."""
        assert step
        assert progress is None
        self.steps.append(step)
        self.partials.append(decode(encode(payload, _LARGEST)))
        self.summaries.append(summary)
        self.views.append(views_from(encode_views(views)))
        return str(len(self.partials))

    def previous(self, /, **match: Any) -> Any:
        """What an earlier job found."""
        return self.earlier(**match)

    def progress(self, percent: float | None = None, step: str | None = None) -> None:  # noqa: ARG002
        """Keeps the step."""
        self.steps.append(step or "")

    def chunks(self, items: Iterable[Item], step: str | None = None) -> Iterator[Item]:
        """Every item."""
        assert step
        known = list(items)
        self.steps += [step.format(item) for item in known]
        return iter(known)


def shown_or_code(analysis: Callable[[], Result]) -> Result | str:
    """What an analysis returned, or the code of the error that it ended with."""
    try:
        return analysis()
    except PermanentError as error:
        return error.code


@pytest.fixture
def job() -> RecordingJob:
    """A fresh job."""
    return RecordingJob()
