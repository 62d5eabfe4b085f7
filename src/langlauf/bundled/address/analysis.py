"""The analysis `address`: what can be said about an address from a gazetteer, offline, stage by stage."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Annotated, Any, Protocol

import msgspec

from langlauf.analysis.payload import Result as Shown
from langlauf.domain.view import AnyView

from .context import Context, Result
from .data import source
from .settings import chosen_table
from .showing import views
from .stages import Mode, Stage, stages_of

Query = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=500,
        description="An address or the name of a place, in any language and in the order people write it.",
        examples=["Bundesplatz 3, 3005 Bern", "10 Downing Street, London", "東京"],
    ),
]
IntelligenceMode = Annotated[
    Mode,
    msgspec.Meta(
        description="How much to say: `basic` locates and ranks the place, `extended` adds its people, peers, "
        "accessibility, daylight and names, `risk` adds scored components with their reasons.",
        examples=["basic"],
    ),
]


class JobHandle(Protocol):
    """What this analysis asks of the job it runs in."""

    async def checkpoint(self, key: str, fn: Callable[..., Any], /, *args: Any) -> Any:
        """The stored result of `fn(*args)` under `key`, run once ever for the job."""
        ...

    async def partial(
        self,
        payload: dict[str, Any],
        *,
        summary: dict[str, Any] | None = None,
        progress: float | None = None,
        step: str | None = None,
        views: Sequence[AnyView] = (),
    ) -> object:
        """Store a snapshot that people can look at."""
        ...

    def chunks(self, items: Sequence[str], step: str = "") -> AsyncIterator[str]:
        """Every item, with progress reported on the way."""
        ...


async def address(job: JobHandle, query: Query, intelligence_mode: IntelligenceMode = "basic") -> Shown:
    """Locate an address in the GeoNames gazetteer and describe the place, its region, surroundings and rank.

    Every stage is a checkpoint, so a restarted job goes on where it was, and ends in a partial result that holds all
    stages so far. Without a recognisable place it fails with the code `address_intel`.
    """
    table = chosen_table()
    stages = {stage.name: stage for stage in stages_of(intelligence_mode)}
    results: dict[str, Result] = {}
    done: list[Stage] = []
    async for name in job.chunks(list(stages), step="Stage {}"):
        stage = stages[name]
        context = Context(query, table, dict(results))
        # The stages compute; the event loop of the server must not wait for them.
        results[name] = await job.checkpoint(name, asyncio.to_thread, stage.run, context)
        done.append(stage)
        so_far = _result(intelligence_mode, results, done)
        await job.partial(so_far, summary=_summary(results), step=stage.done, views=views(results))
    return Shown(_result(intelligence_mode, results, done), views=views(results))


def _result(mode: Mode, results: dict[str, Result], done: list[Stage]) -> dict[str, Any]:
    located = results.get("locate")
    return {
        "query": results["parse"]["query"],
        "intelligence_mode": mode,
        "summary": _summary(results),
        **results,
        "source": source(located["table"], located["places"]) if located else None,
        "limits": [limit for stage in done for limit in stage.limits],
    }


def _summary(results: dict[str, Result]) -> dict[str, Any]:
    """The few figures a list of jobs has room for, as far as the stages have found them."""
    summary: dict[str, Any] = {"stages": len(results)}
    if located := results.get("locate"):
        place = located["place"]
        summary |= {
            "place": place["name"],
            "country": place["country"],
            "population": place["population"],
            "confidence": located["match"]["confidence"],
        }
    if surroundings := results.get("surroundings"):
        summary["people_within_25_km"] = surroundings["people_within"][-1]["people"]
    if assessment := results.get("assessment"):
        summary |= {"risk_score": assessment["score"], "risk_level": assessment["level"]}
    return summary
