"""The gazetteer, loaded once, and a job that records what it is asked."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from langlauf.analysis.payload import encode_views
from langlauf.bundled.address import address
from langlauf.bundled.address.context import Context
from langlauf.bundled.address.gazetteer import Gazetteer, load
from langlauf.bundled.address.settings import DEFAULT_TABLE
from langlauf.bundled.address.stages import Mode, stages_of
from langlauf.domain.view import AnyView, views_from


@dataclass
class RecordingJob:
    """A job in memory: checkpoints are kept as JSON, as a store would, and every call is written down."""

    stored: dict[str, bytes] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)
    partials: list[dict[str, Any]] = field(default_factory=list)
    summaries: list[dict[str, Any] | None] = field(default_factory=list)
    steps: list[str | None] = field(default_factory=list)
    views: list[list[str]] = field(default_factory=list)
    chunked: list[str] = field(default_factory=list)

    async def checkpoint(self, key: str, fn: Callable[..., Any], *args: Any) -> Any:
        """Run `fn` unless its result is stored, and answer with what a store would give back."""
        if key not in self.stored:
            assert asyncio.iscoroutinefunction(fn), "a stage must not compute on the event loop"
            self.ran.append(key)
            self.stored[key] = msgspec.json.encode(await fn(*args))
        return msgspec.json.decode(self.stored[key])

    async def partial(
        self,
        payload: dict[str, Any],
        *,
        summary: dict[str, Any] | None = None,
        progress: float | None = None,
        step: str | None = None,
        views: Sequence[AnyView] = (),
    ) -> None:
        """Keep the snapshot as it is now."""
        assert progress is None
        self.partials.append(msgspec.json.decode(msgspec.json.encode(payload)))
        self.summaries.append(summary)
        self.steps.append(step)
        self.views.append([view.title for view in views_from(encode_views(views))])

    async def chunks(self, items: Sequence[str], step: str = "") -> AsyncIterator[str]:
        """Yield every item and write down its step."""
        for item in items:
            self.chunked.append(step.format(item))
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
            results[stage.name] = stage.run(Context(query, gazetteer.table, dict(results)))
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
