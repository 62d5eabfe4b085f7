"""Stage `seasonality`: how much the daylight changes over the year."""

from .context import Context, Result
from .risk import level, scaled
from .sun import TILT, daylight_hours


def seasonality(context: Context) -> Result:
    """The difference between the longest and the shortest day as a score: 0 on the equator, 100 in the polar night."""
    lat = context.place.lat
    days = daylight_hours(lat, TILT), daylight_hours(lat, -TILT)
    longest, shortest = max(days), min(days)
    score = scaled(longest - shortest, 0.0, 24.0)
    return {
        "score": score,
        "level": level(score),
        "formula": "100 x (longest day - shortest day) / 24 hours",
        "longest_day_hours": round(longest, 2),
        "shortest_day_hours": round(shortest, 2),
        "reasons": [f"The shortest day has {shortest:.1f} hours of daylight, the longest {longest:.1f}."],
    }
