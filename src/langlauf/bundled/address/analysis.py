"""The analysis `address`: what can be said about an address from a gazetteer, offline, stage by stage."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import msgspec

from langlauf.analysis.job import Job
from langlauf.analysis.payload import Result
from langlauf.bundled.address.data import configured_table, source
from langlauf.bundled.address.extended_stages import accessibility, comparable, names, profile, sun_and_time
from langlauf.bundled.address.gazetteer import is_loaded
from langlauf.bundled.address.locate import locate
from langlauf.bundled.address.parser import describe, parse
from langlauf.bundled.address.presentation import views
from langlauf.bundled.address.risk_stages import ambiguity, assessment, border, concentration, remoteness, seasonality
from langlauf.bundled.address.stages import StageContext, StageResult, rank, region, surroundings

Mode = Literal["basic", "extended", "risk"]


@dataclass(frozen=True, slots=True)
class AddressStage:
    """One stage: the key of its result, its steps while it runs and when it is done, its function, its limits."""

    name: str
    doing: str
    done: str
    run: Callable[[StageContext], StageResult]
    limits: tuple[str, ...] = ()


def _parse(context: StageContext) -> StageResult:
    return describe(parse(context.query))


_BASIC: Final = (
    AddressStage("parse", "Taking the address apart", "Address taken apart", _parse),
    AddressStage(
        "locate",
        "Finding the place",
        "Place located",
        locate,
        (
            "The place is a town, not a building: streets and house numbers are read, but not looked up.",
            "Only places the table lists can be found; the table's name says from how many people up it lists them.",
        ),
    ),
    AddressStage(
        "region",
        "Describing the region and the country",
        "Region and country described",
        region,
        ("Regions have names for Switzerland, its larger neighbours, the US, the UK and Canada; others a code.",),
    ),
    AddressStage(
        "surroundings",
        "Measuring the surroundings",
        "Surroundings measured",
        surroundings,
        (
            "All people of a place are counted at its one point, and people outside listed places not at all.",
            "Quarters are recognised by a heuristic; `people` leaves them out, `people_upper_bound` does not.",
            "Distances are straight lines over the globe, not roads.",
        ),
    ),
    AddressStage(
        "rank",
        "Ranking size and centrality",
        "Size and centrality ranked",
        rank,
        ("Ranks are among the places the table lists, by populations of differing years.",),
    ),
)
_EXTENDED: Final = (
    AddressStage(
        "profile", "Counting people by distance and direction", "People by distance and direction counted", profile
    ),
    AddressStage("comparable", "Finding comparable places", "Comparable places found", comparable),
    AddressStage(
        "accessibility",
        "Computing the accessibility",
        "Accessibility computed",
        accessibility,
        ("Accessibility knows no roads, timetables or borders; it weighs people by straight distance.",),
    ),
    AddressStage(
        "sun_and_time",
        "Computing sun and time",
        "Sun and time computed",
        sun_and_time,
        ("Daylight is for a level horizon at sea level; hills and weather are not known.",),
    ),
    AddressStage(
        "names",
        "Sorting the names by script",
        "Names sorted by script",
        names,
        ("Names come without language or date, so they show spread, not history.",),
    ),
)
_RISK: Final = (
    AddressStage("ambiguity", "Weighing the ambiguity of the match", "Ambiguity of the match weighed", ambiguity),
    AddressStage("remoteness", "Weighing the remoteness", "Remoteness weighed", remoteness),
    AddressStage(
        "concentration", "Weighing the concentration of people", "Concentration of people weighed", concentration
    ),
    AddressStage("border", "Weighing the nearness of borders", "Nearness of borders weighed", border),
    AddressStage("seasonality", "Weighing the seasons of daylight", "Seasons of daylight weighed", seasonality),
    AddressStage(
        "assessment",
        "Combining the components",
        "Components combined",
        assessment,
        (
            "The scores are indices from position and population. They say nothing about hazards, crime or credit.",
            "The weights are a stated convention, not an estimate from observed losses.",
        ),
    ),
)


def stages_of(mode: Mode) -> tuple[AddressStage, ...]:
    """Return the stages of a mode; each mode holds those of the one before it."""
    return {"basic": _BASIC, "extended": _BASIC + _EXTENDED, "risk": _BASIC + _EXTENDED + _RISK}[mode]


Query = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=500,
        description="An address or the name of a place, in any language and in the order people write it. The town is "
        "located; street and house number are read, but not looked up.",
        examples=["Bundesplatz 3, 3005 Bern", "10 Downing Street, London", "東京"],
    ),
]
IntelligenceMode = Annotated[
    Mode,
    msgspec.Meta(
        title="Level of detail",
        description="How much to say: `basic` locates and ranks the place, `extended` adds its people, peers, "
        "accessibility, daylight and names, `risk` adds scored components with their reasons.",
        examples=["basic"],
    ),
]


async def address(job: Job, query: Query, intelligence_mode: IntelligenceMode = "basic") -> Result:
    """Locate an address in the GeoNames gazetteer and describe the place, its region, surroundings and rank.

    Every stage is a checkpoint, so a restarted job goes on where it was, and ends in a partial result that holds all
    stages so far. Without a recognisable place it fails with the code `address_intel`.
    """
    table = configured_table()
    stages = {stage.doing: stage for stage in stages_of(intelligence_mode)}
    results: dict[str, StageResult] = {}
    done: list[AddressStage] = []
    async for doing in job.chunks(list(stages), step="{}"):
        stage = stages[doing]
        context = StageContext(query, table, dict(results))
        if stage.name == "locate" and not is_loaded(table):
            await job.progress(step="Loading the table of places (only the first job waits for it)")
        # The stages compute, which would block the event loop.
        results[stage.name] = await job.checkpoint(stage.name, asyncio.to_thread, stage.run, context)
        done.append(stage)
        so_far = _result(intelligence_mode, results, done)
        await job.partial(so_far, summary=_summary(results), step=stage.done, views=views(results))
    return Result(_result(intelligence_mode, results, done), views=views(results))


def _result(mode: Mode, results: dict[str, StageResult], done: list[AddressStage]) -> dict[str, Any]:
    located = results.get("locate")
    return {
        "query": results["parse"]["query"],
        "intelligence_mode": mode,
        "summary": _summary(results),
        **results,
        "source": source(located["table"], located["places"]) if located else None,
        "limits": [limit for stage in done for limit in stage.limits],
    }


def _summary(results: dict[str, StageResult]) -> dict[str, Any]:
    """Return the few figures a list of jobs has room for, as far as the stages have found them."""
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
