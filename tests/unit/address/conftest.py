"""The gazetteer, loaded once, and a job that records what it is asked."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
import pytest

from langlauf.analysis.job import Job
from langlauf.analysis.payload import encode_views
from langlauf.bundled.address import address
from langlauf.bundled.address.analysis import Mode, stages_of
from langlauf.bundled.address.data import DEFAULT_TABLE
from langlauf.bundled.address.gazetteer import Gazetteer, load
from langlauf.bundled.address.stages import StageContext
from langlauf.domain.result import View, views_from

Item = TypeVar("Item")


@dataclass
class RecordingJob(Job):
    """A job in memory: checkpoints are kept as JSON, as a store would, and every call is written down."""

    stored: dict[str, bytes] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)
    partials: list[dict[str, Any]] = field(default_factory=list)
    summaries: list[dict[str, Any] | None] = field(default_factory=list)
    steps: list[str | None] = field(default_factory=list)
    views: list[list[str]] = field(default_factory=list)
    chunked: list[str] = field(default_factory=list)

    async def checkpoint(self, key: str, function: Callable[..., Any], *args: Any) -> Any:
        """Run the function unless its result is stored, and answer with what a store would give back."""
        if key not in self.stored:
            assert asyncio.iscoroutinefunction(function), "a stage must not compute on the event loop"
            self.ran.append(key)
            self.stored[key] = msgspec.json.encode(await function(*args))
        return msgspec.json.decode(self.stored[key])

    async def progress(self, percent: float | None = None, step: str | None = None) -> None:
        """Is not recorded."""

    async def partial(
        self,
        payload: Any,
        *,
        summary: Any = None,
        progress: float | None = None,
        step: str | None = None,
        views: Sequence[View] = (),
    ) -> str:
        """Keep the snapshot as it is now."""
        assert progress is None
        self.partials.append(msgspec.json.decode(msgspec.json.encode(payload)))
        self.summaries.append(summary)
        self.steps.append(step)
        self.views.append([view.title for view in views_from(encode_views(views))])
        return str(len(self.partials))

    async def chunks(self, items: Iterable[Item], step: str | None = None) -> AsyncIterator[Item]:
        """Yield every item and write down its step."""
        for item in items:
            self.chunked.append((step or "").format(item))
            yield item


@pytest.fixture(scope="session")
def gazetteer() -> Gazetteer:
    """The default table."""
    return load(DEFAULT_TABLE)


@pytest.fixture
def job() -> RecordingJob:
    """A fresh job."""
    return RecordingJob()


Analyse = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def analyse(gazetteer: Gazetteer) -> Analyse:
    """Run stages of the analysis one after the other, up to and with the one named."""

    def run(query: str, until: str = "locate", mode: Mode = "risk") -> dict[str, Any]:
        results: dict[str, Any] = {}
        for stage in stages_of(mode):
            results[stage.name] = stage.run(StageContext(query, gazetteer.table, dict(results)))
            if stage.name == until:
                break
        return results

    return run


@pytest.fixture(scope="session")
def complete() -> Analyse:
    """Run the whole analysis in a job."""

    def run(query: str, mode: Mode = "basic", job: RecordingJob | None = None) -> dict[str, Any]:
        result = asyncio.run(address(job or RecordingJob(), query, mode)).payload
        assert isinstance(result, dict)
        return result

    return run
