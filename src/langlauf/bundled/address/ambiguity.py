"""Stage `ambiguity`: how sure it is that the place found is the one meant."""

from typing import Any

from .context import Context, Result
from .risk import level, scaled


def ambiguity(context: Context) -> Result:
    """A score of 0 for a match that leaves no doubt, 100 for a guess."""
    located = context.results["locate"]
    match = located["match"]
    score = scaled(1 - match["confidence"], 0.0, 1.0)
    return {
        "score": score,
        "level": level(score),
        "formula": "100 x (1 - confidence of the match)",
        "confidence": match["confidence"],
        "margin": match["margin"],
        "places_of_this_name": located["places_of_this_name"],
        "reasons": _reasons(located),
    }


def _reasons(located: dict[str, Any]) -> list[str]:
    place, match = located["place"], located["match"]
    reasons = [f"{place['name']} was found by {match['found_by']}, from the words `{match['words']}`."]
    others = located["places_of_this_name"] - 1
    if others > 0:
        reasons.append(f"The table lists {others} more {'place' if others == 1 else 'places'} with this name.")
    if located["alternatives"]:
        rival = located["alternatives"][0]
        reasons.append(
            f"The next best reading is {rival['name']} ({rival['country']}), {match['margin']:g} points behind."
        )
    else:
        reasons.append("No other place of the table fits the words.")
    return reasons
