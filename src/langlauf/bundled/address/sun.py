"""Stage `sun_and_time`: what latitude, longitude and time zone say about light and clocks."""

from datetime import datetime
from math import acos, cos, degrees, radians, sin
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from .context import Context, Result

TILT: Final = 23.44
# The sun's upper edge is seen on the horizon when its centre is this far below, by refraction and its size.
_HORIZON: Final = -0.833
_REFERENCE_YEAR: Final = 2025
_DAYS: Final = {"march_equinox": 0.0, "june_solstice": TILT, "september_equinox": 0.0, "december_solstice": -TILT}


def sun_and_time(context: Context) -> Result:
    """The time zone, how far the clock is from the sun, and daylight and noon height on four days of the year."""
    place = context.place
    offset = utc_offset_hours(place.timezone, month=1), utc_offset_hours(place.timezone, month=7)
    solar = round(place.lon * 4 / 60, 2)
    standard = None if offset[0] is None or offset[1] is None else min(offset[0], offset[1])
    return {
        "timezone": place.timezone or None,
        "utc_offset_hours": {"january": offset[0], "july": offset[1], "year": _REFERENCE_YEAR},
        "clock_changes": None if standard is None else offset[0] != offset[1],
        "solar_offset_hours": solar,
        "clock_ahead_of_sun_minutes": None if standard is None else round((standard - solar) * 60),
        "days": [
            {
                "day": day,
                "daylight_hours": round(daylight_hours(place.lat, declination), 2),
                "noon_height_degrees": round(90 - abs(place.lat - declination), 1),
            }
            for day, declination in _DAYS.items()
        ],
    }


def daylight_hours(latitude: float, declination: float) -> float:
    """The hours from sunrise to sunset at a latitude when the sun stands over `declination`; 0 or 24 near the poles."""
    phi, delta = radians(latitude), radians(declination)
    if abs(cos(phi)) < 1e-9:  # noqa: PLR2004
        return 24.0 if latitude * declination > 0 else 12.0 if declination == 0 else 0.0
    edge = (sin(radians(_HORIZON)) - sin(phi) * sin(delta)) / (cos(phi) * cos(delta))
    return degrees(acos(max(-1.0, min(1.0, edge)))) * 2 / 15


def utc_offset_hours(timezone: str, *, month: int) -> float | None:
    """How far the zone's clocks are ahead of UTC in mid-month of the reference year; None without data for the zone."""
    try:
        zone = ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
    offset = datetime(_REFERENCE_YEAR, month, 15, 12, tzinfo=zone).utcoffset()
    return None if offset is None else round(offset.total_seconds() / 3600, 2)
