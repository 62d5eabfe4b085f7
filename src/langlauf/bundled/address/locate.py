"""Stage `locate`: the place an address means, how well each place fits its words, and what else it could have meant."""

from collections.abc import Iterable, Iterator
from math import log10
from typing import Any, Final, Literal

import msgspec

from langlauf.bundled.address.data import countries
from langlauf.bundled.address.gazetteer import Gazetteer, GazetteerPlace, distance_km, first_names
from langlauf.bundled.address.hints import RegionHint, regions_of
from langlauf.bundled.address.parser import AddressPart, ParsedAddress
from langlauf.bundled.address.place_names import POSTCODE_AREAS
from langlauf.bundled.address.stages import StageContext, StageResult, brief
from langlauf.bundled.address.text import edit_distance, fold, is_written_without_spaces, spellings
from langlauf.domain.errors import PermanentError

# -- score -------------------------------------------------------------------------------------------------------------

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


# -- stage -------------------------------------------------------------------------------------------------------------

QUALITY: Final[dict[MatchKind, float]] = {"name": 1.0, "other_name": 0.95, "typo_1": 0.8, "typo_2": 0.6}
CLEAR_MARGIN: Final = 30.0
_ALTERNATIVES: Final = 5
_FOUND_BY: Final[dict[MatchKind, str]] = {
    "name": "its name",
    "other_name": "one of its other names",
    "typo_1": "its name with one typing error",
    "typo_2": "its name with two typing errors",
}


def locate(context: StageContext) -> StageResult:
    """Return the place that the address means; raise PermanentError `address_intel` if the table knows none."""
    parsed = msgspec.convert(context.results["parse"], ParsedAddress)
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


def confidence(best: PlaceCandidate, margin: float | None) -> float:
    """From 0 to 1: how exact the name is, how much of the words it explains, and how far ahead of the next place.

    quality x (0.5 + 0.5 x share of words) x (0.6 + 0.4 x margin / 30, at most 1); without a rival the last is 1.
    """
    clearness = 1.0 if margin is None else 0.6 + 0.4 * min(1.0, margin / CLEAR_MARGIN)
    return round(QUALITY[best.kind] * (0.5 + 0.5 * min(1.0, best.span.share)) * clearness, 2)


def _rivals(candidates: list[PlaceCandidate], gazetteer: Gazetteer) -> list[PlaceCandidate]:
    """Return the other candidates, without parts of the best one, its whole, and other parts of that."""
    best = candidates[0].index
    family = {best, gazetteer.parts.get(best, best)}
    return [
        candidate
        for candidate in candidates[1:]
        if candidate.index not in family and gazetteer.parts.get(candidate.index) not in family
    ]


def _alternative(candidate: PlaceCandidate, gazetteer: Gazetteer) -> StageResult:
    return brief(gazetteer.places[candidate.index]) | {"kind": candidate.kind, "score": round(candidate.score, 1)}


def _words(parsed: ParsedAddress, candidate: PlaceCandidate) -> str:
    span = candidate.span
    return " ".join(parsed.parts[span.part].words[span.start : span.end])


def _not_found(parsed: ParsedAddress, gazetteer: Gazetteer) -> PermanentError:
    meta: dict[str, Any] = {"field": "query", "table": f"cities{gazetteer.table}"}
    if not any(part.words for part in parsed.parts):
        message = "The query holds no words. Send an address with the name of its town, such as “Bundesplatz 3, Bern”."
    elif suggested := suggest_near_postcode(parsed, gazetteer):
        words, place = suggested
        message = f"No place called {words} was found. Did you mean {place.name}?"
        meta["suggestion"] = place.name
    elif parsed.hints and not parsed.street:
        message = (
            "The query names a country or a region but no place the gazetteer knows. Add the name of the town, "
            "then send it again."
        )
    else:
        message = (
            "No place was recognised in the query. Check the spelling and add the town and the country, such as "
            "“Bundesplatz 3, 3005 Bern, Switzerland”."
        )
        if gazetteer.table != _SMALLEST_TABLE:
            message += f" Places with fewer than {gazetteer.table} people are not listed."
    return PermanentError(message, code="address_intel", hint="check_input_and_retry", meta=meta)


_SHORTEST_SUGGESTED: Final = 3
_SMALLEST_TABLE: Final = "500"


def suggest_near_postcode(parsed: ParsedAddress, gazetteer: Gazetteer) -> tuple[str, GazetteerPlace] | None:
    """Return the words beside a postcode, and the place they probably mean: too short to guess without it, as `Bren`.

    The first figure of a Swiss postcode names its cantons, so a place there comes first; then the largest.
    """
    postcode = parsed.postcode
    words = next((" ".join(part.words) for part in parsed.parts if part.words and part.role == "after_postcode"), "")
    folded = fold(words)
    if postcode is None or len(folded) < _SHORTEST_SUGGESTED:
        return None
    cantons = POSTCODE_AREAS.get(postcode.text[:1], frozenset())
    found = [
        (place.country != "CH", index)
        for code in postcode.countries
        for index in gazetteer.by_country.get(code, ())
        if (place := gazetteer.places[index]).country != "CH" or place.region in cantons
        if any(edit_distance(folded, name, 1) == 1 for name in first_names(place.name))
    ]
    return (words, gazetteer.places[min(found)[1]]) if found else None


_LONGEST_NAME: Final = 6
_MOST_MISSPELT: Final = 60
_GOOD_ENOUGH: Final = 70.0
_NEIGHBOUR_KM: Final = 40.0
_MOST_WEIGHED: Final = 40
# fmt: off
_SMALL_WORDS: Final = frozenset({
    "a", "an", "am", "and", "at", "auf", "au", "aux", "bei", "da", "das", "de", "del", "den", "der", "des",
    "di", "die", "du", "el", "en", "et", "im", "in", "la", "le", "les", "of", "on", "the", "und", "y", "zu",
    "zum", "zur", "near", "north", "south", "east", "west",
})
# fmt: on


def find_candidates(parsed: ParsedAddress, gazetteer: Gazetteer) -> list[PlaceCandidate]:
    """Return the places that fit well enough, best first, each once."""
    spans = list(_spans(parsed))
    found = [candidate for span in spans for candidate in _exact(span, parsed, gazetteer)]
    if not any(_leaves_no_doubt(candidate) for candidate in found):
        found += [candidate for span in _misspellable(spans, parsed) for candidate in _near(span, parsed, gazetteer)]
    weighed = _with_neighbours(_ranked(found), gazetteer)
    return [candidate for candidate in _ranked(weighed) if candidate.score >= ACCEPTED_FROM]


def _leaves_no_doubt(candidate: PlaceCandidate) -> bool:
    whole = candidate.span.share >= 1 and candidate.points.get("context", 0.0) >= 0
    return whole and candidate.score >= _GOOD_ENOUGH


def _spans(parsed: ParsedAddress) -> Iterator[NameSpan]:
    for number, part in enumerate(parsed.parts):
        for start in range(len(part.words)):
            for end in range(start + 1, min(len(part.words), start + _LONGEST_NAME) + 1):
                text = fold(" ".join(part.words[start:end]))
                lone = len(part.words) == 1
                if text and (lone or (text not in _SMALL_WORDS and not text.isdigit())):
                    yield NameSpan(number, start, end, text, _share(parsed, number, start, end))
        yield from _inside_words(number, part)


def _inside_words(number: int, part: AddressPart) -> Iterator[NameSpan]:
    """Yield names inside the words of scripts that write no spaces, such as the city in a Japanese address."""
    for at, word in enumerate(part.words):
        if is_written_without_spaces(word):
            letters = fold(word)[:40]
            for length in range(min(_LONGEST_NAME, len(letters) - 1), 1, -1):
                for start in range(len(letters) - length + 1):
                    # The place leads in these addresses, so nothing is taken off for the words that follow.
                    share = 0.99 if start == 0 else 0.6
                    yield NameSpan(number, at, at + 1, letters[start : start + length], share)


def _share(parsed: ParsedAddress, number: int, start: int, end: int) -> float:
    """Return how much of its part the span covers by letters; words that name a country or region count as covered."""
    words = parsed.parts[number].words
    covered = set(range(start, end))
    for hint in parsed.hints:
        if hint.part == number and (hint.end <= start or end <= hint.start):
            covered.update(range(hint.start, hint.end))
    return sum(len(words[at]) for at in covered) / sum(map(len, words))


def _exact(span: NameSpan, parsed: ParsedAddress, gazetteer: Gazetteer) -> Iterator[PlaceCandidate]:
    for spelling in spellings(span.text):
        for index in gazetteer.named(spelling):
            place = gazetteer.places[index]
            kind: MatchKind = "name" if spelling in first_names(place.name) else "other_name"
            points = score(place, kind, span, parsed, other_name=kind == "other_name")
            yield PlaceCandidate(index, kind, spelling, span, points)


def _misspellable(spans: Iterable[NameSpan], parsed: ParsedAddress) -> list[NameSpan]:
    taken = {(hint.part, at) for hint in parsed.hints if hint.sure for at in range(hint.start, hint.end)}
    fitting = [
        span
        for span in spans
        if parsed.parts[span.part].role != "street"
        and not taken.issuperset((span.part, at) for at in range(span.start, span.end))
    ]
    return sorted(fitting, key=lambda span: (-span.share, span.part, span.start))[:_MOST_MISSPELT]


def _near(span: NameSpan, parsed: ParsedAddress, gazetteer: Gazetteer) -> Iterator[PlaceCandidate]:
    for errors, name in gazetteer.nearly_named(span.text):
        kind: MatchKind = "typo_1" if errors == 1 else "typo_2"
        for index in gazetteer.named(name):
            place = gazetteer.places[index]
            other = name not in first_names(place.name)
            yield PlaceCandidate(index, kind, name, span, score(place, kind, span, parsed, other_name=other))


def _ranked(candidates: Iterable[PlaceCandidate]) -> list[PlaceCandidate]:
    best: dict[int, PlaceCandidate] = {}
    for candidate in candidates:
        known = best.get(candidate.index)
        if known is None or candidate.score > known.score:
            best[candidate.index] = candidate
    # Equal scores go to the larger place, which has the smaller index.
    return sorted(best.values(), key=lambda candidate: (-candidate.score, candidate.index))


def _with_neighbours(ranked: list[PlaceCandidate], gazetteer: Gazetteer) -> list[PlaceCandidate]:
    """Prefer a place that is named before a larger one near it: `Oerlikon, Zürich` is Oerlikon."""
    head = ranked[:_MOST_WEIGHED]
    return [
        PlaceCandidate(it.index, it.kind, it.matched, it.span, it.points | {"neighbour": NEIGHBOUR_POINTS})
        if any(_names_larger(it, other, gazetteer) for other in head)
        else it
        for it in head
    ] + ranked[_MOST_WEIGHED:]


def _names_larger(small: PlaceCandidate, large: PlaceCandidate, gazetteer: Gazetteer) -> bool:
    if small.index <= large.index or small.span.part >= large.span.part or min(small.span.share, large.span.share) < 1:
        return False
    if small.span.text == large.span.text or large.kind.startswith("typo"):
        return False
    one, other = gazetteer.places[small.index], gazetteer.places[large.index]
    return one.country == other.country and distance_km(one.lat, one.lon, other.lat, other.lon) <= _NEIGHBOUR_KM
