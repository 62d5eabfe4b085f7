"""The stages of the analysis in their order, by mode."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from . import (
    accessibility,
    ambiguity,
    assessment,
    border,
    comparable,
    concentration,
    locate,
    names,
    parsing,
    profile,
    rank,
    region,
    remoteness,
    seasonality,
    sun,
    surroundings,
)
from .context import Context, Result

Mode = Literal["basic", "extended", "risk"]


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage: the key of its result, what it did in words, its function, and what its figures do not say."""

    name: str
    done: str
    run: Callable[[Context], Result]
    limits: tuple[str, ...] = ()


def _parse(context: Context) -> Result:
    return parsing.describe(parsing.parse(context.query))


_BASIC: Final = (
    Stage("parse", "Address taken apart", _parse),
    Stage(
        "locate",
        "Place located",
        locate.locate,
        (
            "The place is a town, not a building: streets and house numbers are read, but not looked up.",
            "Only places the table lists can be found; the table's name says from how many people up it lists them.",
        ),
    ),
    Stage(
        "region",
        "Region and country described",
        region.region,
        ("Regions have names for Switzerland, its larger neighbours, the US, the UK and Canada; others a code.",),
    ),
    Stage(
        "surroundings",
        "Surroundings measured",
        surroundings.surroundings,
        (
            "All people of a place are counted at its one point, and people outside listed places not at all.",
            "Quarters are told from towns by a rule of thumb; `people` leaves them out, `people_upper_bound` does not.",
            "Distances are straight lines over the globe, not roads.",
        ),
    ),
    Stage(
        "rank",
        "Size and centrality ranked",
        rank.rank,
        ("Ranks are among the places the table lists, by populations of differing years.",),
    ),
)
_EXTENDED: Final = (
    Stage("profile", "People by distance and direction counted", profile.profile),
    Stage("comparable", "Comparable places found", comparable.comparable),
    Stage(
        "accessibility",
        "Accessibility computed",
        accessibility.accessibility,
        ("Accessibility knows no roads, timetables or borders; it weighs people by straight distance.",),
    ),
    Stage(
        "sun_and_time",
        "Sun and time computed",
        sun.sun_and_time,
        ("Daylight is for a level horizon at sea level; hills and weather are not known.",),
    ),
    Stage(
        "names",
        "Names sorted by script",
        names.names,
        ("Names come without language or date, so they show spread, not history.",),
    ),
)
_RISK: Final = (
    Stage("ambiguity", "Ambiguity of the match weighed", ambiguity.ambiguity),
    Stage("remoteness", "Remoteness weighed", remoteness.remoteness),
    Stage("concentration", "Concentration of people weighed", concentration.concentration),
    Stage("border", "Nearness of borders weighed", border.border),
    Stage("seasonality", "Seasons of daylight weighed", seasonality.seasonality),
    Stage(
        "assessment",
        "Components combined",
        assessment.assessment,
        (
            "The scores are indices from position and population. They say nothing about hazards, crime or credit.",
            "The weights are a stated convention, not an estimate from observed losses.",
        ),
    ),
)


def stages_of(mode: Mode) -> tuple[Stage, ...]:
    """The stages of a mode; each mode holds those of the one before it."""
    return {"basic": _BASIC, "extended": _BASIC + _EXTENDED, "risk": _BASIC + _EXTENDED + _RISK}[mode]
