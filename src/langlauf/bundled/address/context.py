"""What a stage of the analysis is given: the query, and what the stages before it found."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langlauf.bundled.address.gazetteer import Gazetteer, GazetteerPlace, load
from langlauf.bundled.address.geometry import bearing, compass, distance_km

StageResult = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StageContext:
    """The input of a stage; `results` are the results of the earlier stages by name."""

    query: str
    table: str
    results: Mapping[str, StageResult]

    @property
    def gazetteer(self) -> Gazetteer:
        """The gazetteer the place was found in, even if the setting has changed since the job began."""
        located = self.results.get("locate")
        return load(located["table"] if located else self.table)

    @property
    def index(self) -> int:
        """The index of the located place in the gazetteer."""
        return self.gazetteer.index_of(self.results["locate"]["place"]["id"])

    @property
    def place(self) -> GazetteerPlace:
        """The located place."""
        return self.gazetteer.places[self.index]


def brief(place: GazetteerPlace) -> StageResult:
    """Return a place in the few words every list of places has."""
    return {
        "id": place.id,
        "name": place.name,
        "country": place.country,
        "region": place.region,
        "population": place.population,
        "latitude": round(place.lat, 5),
        "longitude": round(place.lon, 5),
    }


def brief_from(origin: GazetteerPlace, place: GazetteerPlace) -> StageResult:
    """Return a place in few words, with how far and in which direction it lies from another; no direction to itself."""
    distance = round(distance_km(origin.lat, origin.lon, place.lat, place.lon), 1)
    direction = compass(bearing(origin.lat, origin.lon, place.lat, place.lon)) if distance else None
    return brief(place) | {"distance_km": distance, "direction": direction}
