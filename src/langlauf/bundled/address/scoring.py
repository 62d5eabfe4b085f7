"""How well a place fits the words of an address. Every point given is named, so a result can be explained."""

from math import log10
from typing import Final, Literal

import msgspec

from langlauf.bundled.address.gazetteer import GazetteerPlace
from langlauf.bundled.address.hints import RegionHint, regions_of
from langlauf.bundled.address.parser import ParsedAddress
from langlauf.bundled.address.text import fold

MatchKind = Literal["name", "other_name", "typo_1", "typo_2"]

NAME_POINTS: Final[dict[MatchKind, float]] = {"name": 60.0, "other_name": 50.0, "typo_1": 40.0, "typo_2": 28.0}
OTHER_NAME_TYPO: Final = -4.0
OTHER_INITIAL: Final = -10.0
SIZE_POINTS: Final = 6.0
RENOWN_POINTS: Final = 2.0
ROLE_POINTS: Final = {"after_postcode": 20.0, "place": 0.0, "before_postcode": -20.0, "street": -45.0}
WHOLE_PART: Final = 12.0
MISSING_WORDS: Final = -50.0
HOME_COUNTRY: Final = "CH"
HOME_POINTS: Final = 5.0
SURE_MATCH, COUNTRY_MISMATCH, REGION_MISMATCH = 30.0, -35.0, -20.0
CODE_MATCH, CODE_MISMATCH = 25.0, -12.0
COUNTRY_WORD: Final = -15.0
NEIGHBOUR_POINTS: Final = 10.0
ACCEPTED_FROM: Final = 60.0


class NameSpan(msgspec.Struct, frozen=True):
    """Words of one part of the address, taken as a name; `share` is how much of the part's letters they are."""

    part: int
    start: int
    end: int
    text: str
    share: float


class PlaceCandidate(msgspec.Struct, frozen=True):
    """A place the address may mean, with the points for and against it."""

    index: int
    kind: MatchKind
    matched: str
    span: NameSpan
    points: dict[str, float]

    @property
    def score(self) -> float:
        """The sum of the points."""
        return round(sum(self.points.values()), 2)


def score(
    place: GazetteerPlace, kind: MatchKind, span: NameSpan, parsed: ParsedAddress, *, other_name: bool
) -> dict[str, float]:
    """Return the points of one place for one span of the address, by reason; reasons that give nothing are left out."""
    points = {
        "name": NAME_POINTS[kind] + _other_name_points(place, kind, span, other_name=other_name),
        "size": SIZE_POINTS * log10(max(1, place.population)),
        "renown": RENOWN_POINTS * place.renown,
        "role": ROLE_POINTS[parsed.parts[span.part].role],
        "coverage": WHOLE_PART if span.share >= 1 else MISSING_WORDS * (1 - span.share),
        "home_country": HOME_POINTS if place.country == HOME_COUNTRY else 0.0,
        "context": sum(_hint_points(place, hint, span) for hint in parsed.hints),
        "postcode": _postcode_points(place, parsed),
    }
    return {reason: round(value, 2) for reason, value in points.items() if value}


def _other_name_points(place: GazetteerPlace, kind: MatchKind, span: NameSpan, *, other_name: bool) -> float:
    """Large places have names in many languages; those that begin alike are likelier the ones people use."""
    if not other_name:
        return 0.0
    points = OTHER_NAME_TYPO if kind.startswith("typo") else 0.0
    if span.text.isascii() and _initial(span.text) != _initial(fold(place.name)):
        points += OTHER_INITIAL
    return points


def _initial(name: str) -> str:
    # Letters that languages swap for one another: Cologne and Köln, Vienna and Wien.
    return next((letters for letters in ("ckq", "vw", "ijy", "sz") if name[:1] in letters), name[:1])


def _hint_points(place: GazetteerPlace, hint: RegionHint, span: NameSpan) -> float:
    if hint.part == span.part and hint.start < span.end and span.start < hint.end:
        # A word cannot speak for itself, and one that names a country more likely means the country.
        return COUNTRY_WORD if hint.sure and all(meaning.region is None for meaning in hint.meanings) else 0.0
    fits = any(meaning.country == place.country and meaning.region in {None, place.region} for meaning in hint.meanings)
    if hint.sure:
        # A region's name may also be a town's, so that it does not fit says less.
        country = all(meaning.region is None for meaning in hint.meanings)
        return SURE_MATCH if fits else COUNTRY_MISMATCH if country else REGION_MISMATCH
    return CODE_MATCH if fits else CODE_MISMATCH


def _postcode_points(place: GazetteerPlace, parsed: ParsedAddress) -> float:
    postcode = parsed.postcode
    if postcode is None:
        return 0.0
    if postcode.country:
        return SURE_MATCH if postcode.country == place.country else COUNTRY_MISMATCH
    if place.country not in postcode.countries:
        return -10.0
    points = 4.0
    regions = regions_of(postcode, place.country)
    if regions is not None:
        points += 15.0 if place.region in regions else -10.0
    return points
