"""Stage `assessment`: the components of the mode `risk` in one figure, with the sum laid open."""

from typing import Final

from .context import Context, Result
from .risk import level

WEIGHTS: Final = {
    "ambiguity": 0.25,
    "remoteness": 0.30,
    "concentration": 0.20,
    "border": 0.10,
    "seasonality": 0.15,
}


def assessment(context: Context) -> Result:
    """The weighted mean of the component scores, each component's part in it, and the reasons of the heaviest two."""
    components = [
        {
            "name": name,
            "score": context.results[name]["score"],
            "weight": weight,
            "contribution": round(weight * context.results[name]["score"], 2),
        }
        for name, weight in WEIGHTS.items()
    ]
    score = round(sum(weight * context.results[name]["score"] for name, weight in WEIGHTS.items()), 1)
    heaviest = sorted(components, key=lambda component: (-component["contribution"], component["name"]))[:2]
    return {
        "score": score,
        "level": level(score),
        "formula": " + ".join(f"{weight:g} x {name}" for name, weight in WEIGHTS.items()),
        "components": components,
        "reasons": [reason for component in heaviest for reason in context.results[component["name"]]["reasons"]],
    }
