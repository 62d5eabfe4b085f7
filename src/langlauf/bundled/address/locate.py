"""Stage `locate`: the place an address means, how it was found, and what else it could have meant."""

from typing import Any, Final

import msgspec

from langlauf.domain.errors import PermanentError

from .candidates import find_candidates
from .context import Context, Result, brief
from .data import countries
from .gazetteer import Gazetteer
from .parsing import Parsed
from .scoring import Candidate, Kind

QUALITY: Final[dict[Kind, float]] = {"name": 1.0, "other_name": 0.95, "typo_1": 0.8, "typo_2": 0.6}
CLEAR_MARGIN: Final = 30.0
_ALTERNATIVES: Final = 5
_FOUND_BY: Final[dict[Kind, str]] = {
    "name": "its name",
    "other_name": "one of its other names",
    "typo_1": "its name with one typing error",
    "typo_2": "its name with two typing errors",
}


def locate(context: Context) -> Result:
    """The place meant, or PermanentError `address_intel` where the address holds no place the table knows."""
    parsed = msgspec.convert(context.results["parse"], Parsed)
    gazetteer = context.gazetteer
    candidates = find_candidates(parsed, gazetteer)
    if not candidates:
        raise _not_found(parsed, gazetteer)
    best, rivals = candidates[0], _rivals(candidates, gazetteer)
    place = gazetteer.places[best.index]
    margin = round(best.score - rivals[0].score, 1) if rivals else None
    country = countries().get(place.country)
    whole = gazetteer.parts.get(best.index)
    return {
        "table": gazetteer.table,
        "places": len(gazetteer.places),
        "place": brief(place)
        | {
            "country_name": country.name if country else place.country,
            "timezone": place.timezone or None,
            "part_of": brief(gazetteer.places[whole]) if whole is not None else None,
        },
        "match": {
            "kind": best.kind,
            "found_by": _FOUND_BY[best.kind],
            "words": _words(parsed, best),
            "matched_name": best.matched,
            "score": round(best.score, 1),
            "points": best.points,
            "margin": margin,
            "confidence": confidence(best, margin),
        },
        "alternatives": [_alternative(rival, gazetteer) for rival in rivals[:_ALTERNATIVES]],
        "places_of_this_name": len(gazetteer.independent({*gazetteer.named(best.matched), best.index})),
    }


def confidence(best: Candidate, margin: float | None) -> float:
    """From 0 to 1: how exact the name is, how much of the words it explains, and how far ahead of the next place.

    quality x (0.5 + 0.5 x share of words) x (0.6 + 0.4 x margin / 30, at most 1); without a rival the last is 1.
    """
    clearness = 1.0 if margin is None else 0.6 + 0.4 * min(1.0, margin / CLEAR_MARGIN)
    return round(QUALITY[best.kind] * (0.5 + 0.5 * min(1.0, best.span.share)) * clearness, 2)


def _rivals(candidates: list[Candidate], gazetteer: Gazetteer) -> list[Candidate]:
    """The other candidates, without parts of the best one, its whole, and other parts of that."""
    best = candidates[0].index
    family = {best, gazetteer.parts.get(best, best)}
    return [
        candidate
        for candidate in candidates[1:]
        if candidate.index not in family and gazetteer.parts.get(candidate.index) not in family
    ]


def _alternative(candidate: Candidate, gazetteer: Gazetteer) -> Result:
    return brief(gazetteer.places[candidate.index]) | {"kind": candidate.kind, "score": round(candidate.score, 1)}


def _words(parsed: Parsed, candidate: Candidate) -> str:
    span = candidate.span
    return " ".join(parsed.parts[span.part].words[span.start : span.end])


def _not_found(parsed: Parsed, gazetteer: Gazetteer) -> PermanentError:
    if not any(part.words for part in parsed.parts):
        message = "The query holds no words. Send an address with the name of its town, such as `Bundesplatz 3, Bern`."
    elif parsed.hints and not parsed.street:
        message = (
            "The query names a country or a region but no place the gazetteer knows. Add the name of the town, "
            "then send it again."
        )
    else:
        message = (
            "No place was recognised in the query. Check the spelling and add the town and the country, such as "
            "`Bundesplatz 3, 3005 Bern, Switzerland`."
        )
    if gazetteer.table != "500":
        message += (
            f" The table in use lists places from {gazetteer.table} people up; for smaller ones set "
            "LANGLAUF_ADDRESS_TABLE=500."
        )
    meta: dict[str, Any] = {"table": f"cities{gazetteer.table}"}
    return PermanentError(message, code="address_intel", hint="check_input_and_retry", meta=meta)
