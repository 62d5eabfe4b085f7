"""What the stages of the mode `risk` share: scores from 0 to 100, and the words for them."""

from typing import Final

LEVELS: Final = ((25.0, "low"), (50.0, "moderate"), (75.0, "elevated"), (100.0, "high"))


def scaled(value: float, best: float, worst: float) -> float:
    """A figure as a score: 0 at `best`, 100 at `worst`, straight in between and never beyond."""
    return round(100 * max(0.0, min(1.0, (value - best) / (worst - best))), 1)


def level(score: float) -> str:
    """The word for a score: low under 25, moderate under 50, elevated under 75, high from there on."""
    return next((word for bound, word in LEVELS if score < bound), LEVELS[-1][1])
