"""Distances and directions on the globe."""

from math import asin, atan2, cos, degrees, pi, radians, sin, sqrt
from typing import Final

EARTH_RADIUS_KM: Final = 6371.0088
KM_PER_DEGREE: Final = 111.195
COMPASS: Final = ("N", "NE", "E", "SE", "S", "SW", "W", "NW")


def distance_km(lat_a: float, lon_a: float, lat_b: float, lon_b: float) -> float:
    """The great-circle distance between two points (haversine formula, mean earth radius)."""
    phi_a, phi_b = radians(lat_a), radians(lat_b)
    half_lat = sin((phi_b - phi_a) / 2)
    half_lon = sin(radians(lon_b - lon_a) / 2)
    chord = half_lat * half_lat + cos(phi_a) * cos(phi_b) * half_lon * half_lon
    return 2 * EARTH_RADIUS_KM * asin(sqrt(min(1.0, chord)))


def bearing(lat_a: float, lon_a: float, lat_b: float, lon_b: float) -> float:
    """The initial direction from the first point to the second, in degrees from north, 0 to under 360."""
    phi_a, phi_b, turn = radians(lat_a), radians(lat_b), radians(lon_b - lon_a)
    east = sin(turn) * cos(phi_b)
    north = cos(phi_a) * sin(phi_b) - sin(phi_a) * cos(phi_b) * cos(turn)
    return degrees(atan2(east, north)) % 360


def compass(direction: float) -> str:
    """The eighth of the compass a direction in degrees falls in."""
    return COMPASS[int((direction + 22.5) // 45) % 8]


def ring(lat: float, lon: float, radius_km: float, corners: int = 72) -> list[tuple[float, float]] | None:
    """A closed circle of (longitude, latitude); None where it would cross a pole or the date line, and tear a map."""
    phi, reach = radians(lat), radius_km / EARTH_RADIUS_KM
    if abs(phi) + reach >= pi / 2:
        return None
    points = []
    for corner in range(corners):
        turn = 2 * pi * corner / corners
        at = asin(sin(phi) * cos(reach) + cos(phi) * sin(reach) * cos(turn))
        east = atan2(sin(turn) * sin(reach) * cos(phi), cos(reach) - sin(phi) * sin(at))
        points.append((round(lon + degrees(east), 5), round(degrees(at), 5)))
    return [*points, points[0]] if all(-180 <= point[0] <= 180 for point in points) else None  # noqa: PLR2004


def mean_centre(points: list[tuple[float, float, float]]) -> tuple[float, float] | None:
    """The weighted centre of (latitude, longitude, weight) points on the globe; nothing without weight."""
    x = y = z = 0.0
    for lat, lon, weight in points:
        phi, lam = radians(lat), radians(lon)
        x += weight * cos(phi) * cos(lam)
        y += weight * cos(phi) * sin(lam)
        z += weight * sin(phi)
    if x == y == z == 0.0:
        return None
    return degrees(atan2(z, sqrt(x * x + y * y))), degrees(atan2(y, x))
