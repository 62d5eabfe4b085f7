"""The places an address may mean."""

from collections.abc import Iterable, Iterator
from typing import Final

from .gazetteer import Gazetteer, first_names
from .geometry import distance_km
from .parsing import Parsed, Part
from .scoring import ACCEPTED_FROM, NEIGHBOUR_POINTS, Candidate, Kind, Span, score
from .text import fold, is_written_without_spaces, spellings

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


def find_candidates(parsed: Parsed, gazetteer: Gazetteer) -> list[Candidate]:
    """The places that fit well enough, best first, each once."""
    spans = list(_spans(parsed))
    found = [candidate for span in spans for candidate in _exact(span, parsed, gazetteer)]
    if not any(_leaves_no_doubt(candidate) for candidate in found):
        found += [candidate for span in _misspellable(spans, parsed) for candidate in _near(span, parsed, gazetteer)]
    weighed = _with_neighbours(_ranked(found), gazetteer)
    return [candidate for candidate in _ranked(weighed) if candidate.score >= ACCEPTED_FROM]


def _leaves_no_doubt(candidate: Candidate) -> bool:
    whole = candidate.span.share >= 1 and candidate.points.get("context", 0.0) >= 0
    return whole and candidate.score >= _GOOD_ENOUGH


def _spans(parsed: Parsed) -> Iterator[Span]:
    for number, part in enumerate(parsed.parts):
        for start in range(len(part.words)):
            for end in range(start + 1, min(len(part.words), start + _LONGEST_NAME) + 1):
                text = fold(" ".join(part.words[start:end]))
                lone = len(part.words) == 1
                if text and (lone or (text not in _SMALL_WORDS and not text.isdigit())):
                    yield Span(number, start, end, text, _share(parsed, number, start, end))
        yield from _inside_words(number, part)


def _inside_words(number: int, part: Part) -> Iterator[Span]:
    """Names inside the words of scripts that write no spaces, such as the city in a Japanese address."""
    for at, word in enumerate(part.words):
        if is_written_without_spaces(word):
            letters = fold(word)[:40]
            for length in range(min(_LONGEST_NAME, len(letters) - 1), 1, -1):
                for start in range(len(letters) - length + 1):
                    # The place leads in these addresses, so nothing is taken off for the words that follow.
                    share = 0.99 if start == 0 else 0.6
                    yield Span(number, at, at + 1, letters[start : start + length], share)


def _share(parsed: Parsed, number: int, start: int, end: int) -> float:
    """How much of its part the span covers by letters; words that name a country or region count as covered."""
    words = parsed.parts[number].words
    covered = set(range(start, end))
    for hint in parsed.hints:
        if hint.part == number and (hint.end <= start or end <= hint.start):
            covered.update(range(hint.start, hint.end))
    return sum(len(words[at]) for at in covered) / sum(map(len, words))


def _exact(span: Span, parsed: Parsed, gazetteer: Gazetteer) -> Iterator[Candidate]:
    for spelling in spellings(span.text):
        for index in gazetteer.named(spelling):
            place = gazetteer.places[index]
            kind: Kind = "name" if spelling in first_names(place.name) else "other_name"
            points = score(place, kind, span, parsed, other_name=kind == "other_name")
            yield Candidate(index, kind, spelling, span, points)


def _misspellable(spans: Iterable[Span], parsed: Parsed) -> list[Span]:
    taken = {(hint.part, at) for hint in parsed.hints if hint.sure for at in range(hint.start, hint.end)}
    fitting = [
        span
        for span in spans
        if parsed.parts[span.part].role != "street"
        and not taken.issuperset((span.part, at) for at in range(span.start, span.end))
    ]
    return sorted(fitting, key=lambda span: (-span.share, span.part, span.start))[:_MOST_MISSPELT]


def _near(span: Span, parsed: Parsed, gazetteer: Gazetteer) -> Iterator[Candidate]:
    for errors, name in gazetteer.nearly_named(span.text):
        kind: Kind = "typo_1" if errors == 1 else "typo_2"
        for index in gazetteer.named(name):
            place = gazetteer.places[index]
            other = name not in first_names(place.name)
            yield Candidate(index, kind, name, span, score(place, kind, span, parsed, other_name=other))


def _ranked(candidates: Iterable[Candidate]) -> list[Candidate]:
    best: dict[int, Candidate] = {}
    for candidate in candidates:
        known = best.get(candidate.index)
        if known is None or candidate.score > known.score:
            best[candidate.index] = candidate
    # Equal scores go to the larger place, which has the smaller index.
    return sorted(best.values(), key=lambda candidate: (-candidate.score, candidate.index))


def _with_neighbours(ranked: list[Candidate], gazetteer: Gazetteer) -> list[Candidate]:
    """A place named before a larger one near it is the one meant: `Oerlikon, Zürich` is Oerlikon."""
    head = ranked[:_MOST_WEIGHED]
    return [
        Candidate(it.index, it.kind, it.matched, it.span, it.points | {"neighbour": NEIGHBOUR_POINTS})
        if any(_names_larger(it, other, gazetteer) for other in head)
        else it
        for it in head
    ] + ranked[_MOST_WEIGHED:]


def _names_larger(small: Candidate, large: Candidate, gazetteer: Gazetteer) -> bool:
    if small.index <= large.index or small.span.part >= large.span.part or min(small.span.share, large.span.share) < 1:
        return False
    if small.span.text == large.span.text or large.kind.startswith("typo"):
        return False
    one, other = gazetteer.places[small.index], gazetteer.places[large.index]
    return one.country == other.country and distance_km(one.lat, one.lon, other.lat, other.lon) <= _NEIGHBOUR_KM
