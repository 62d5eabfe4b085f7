"""Names made comparable: one folded spelling for every way of writing the same name."""

import re
import unicodedata
from array import array
from collections.abc import Iterable
from itertools import product
from typing import Final

# Letters that Unicode does not take apart, though a keyboard without them writes them so.
_LETTERS: Final = {
    "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "\u0131": "i", "ħ": "h",
}  # fmt: skip
_SPECIAL_LETTER: Final = re.compile("[" + "".join(_LETTERS) + "]")
_APOSTROPHES: Final = re.compile("['`\u00b4\u2018\u2019\u02b9\u02bb\u02bc]")
_ACCENTS: Final = re.compile("[\u0300-\u036f]+")
# Everything that parts words, but not the end of a line.
_SEPARATORS: Final = re.compile(r"[\t -/:-@\[-`{-~\u00a0-\u00bf\u2000-\u2027\u3000-\u3003\u30fb\uff0c]+")
_LONG_FORMS: Final = {"st": "saint", "sankt": "saint", "ste": "sainte", "mt": "mount", "ft": "fort"}
_UMLAUT_PAIRS: Final = re.compile("ae|oe|ue")
_MAX_PAIRS: Final = 3

_SCRIPTS: Final = (
    "LATIN",
    "CYRILLIC",
    "GREEK",
    "ARABIC",
    "HEBREW",
    "CJK",
    "HIRAGANA",
    "KATAKANA",
    "HANGUL",
    "DEVANAGARI",
    "THAI",
    "GEORGIAN",
    "ARMENIAN",
    "BENGALI",
    "TAMIL",
    "TELUGU",
    "ETHIOPIC",
)


def fold(text: str) -> str:
    """Return the spelling for comparison: lower case, no accents, no punctuation, `St.` and `Sankt` as `saint`."""
    return fold_lines(" ".join(text.splitlines()))[0]


def fold_lines(text: str) -> list[str]:
    """Return every line folded. One call for many names takes half the time of many calls."""
    if text.isascii():
        text = text.lower()
    else:
        text = _SPECIAL_LETTER.sub(lambda letter: _LETTERS[letter[0]], text.casefold())
        text = _ACCENTS.sub("", unicodedata.normalize("NFKD", text))
    text = _SEPARATORS.sub(" ", _APOSTROPHES.sub("", text))
    return [_fold_words(line) for line in text.split("\n")]


def _fold_words(line: str) -> str:
    words = line.split()
    if len(words) < 2:  # noqa: PLR2004
        return words[0] if words else ""
    return " ".join(_join_initials([_LONG_FORMS.get(word, word) for word in words]))


def _join_initials(words: list[str]) -> list[str]:
    """`d`, `c` become `dc`, so that `D.C.` and `DC` are the same."""
    joined: list[str] = []
    after_initial = False
    for word in words:
        if len(word) == 1 and after_initial:
            joined[-1] += word
        else:
            joined.append(word)
        after_initial = len(word) == 1
    return joined


def spellings(folded: str) -> list[str]:
    """Return the folded name, then its variants with `ae`, `oe`, `ue` read as umlauts, in every combination."""
    pairs = list(_UMLAUT_PAIRS.finditer(folded))[:_MAX_PAIRS]
    variants: list[str] = []
    for choice in product((False, True), repeat=len(pairs)):
        text = folded
        for pair, shorten in reversed(list(zip(pairs, choice, strict=True))):
            if shorten:
                text = text[: pair.start() + 1] + text[pair.end() :]
        variants.append(text)
    return variants


def script_of(name: str) -> str:
    """Return the script of most letters of the name, such as `latin` or `cyrillic`; `other` if none is known."""
    counts: dict[str, int] = {}
    for letter in name:
        if letter.isalpha():
            words = unicodedata.name(letter, "OTHER").split()
            script = words[0] if words[0] in _SCRIPTS else "OTHER"
            counts[script] = counts.get(script, 0) + 1
    if not counts:
        return "other"
    return max(sorted(counts), key=lambda script: counts[script]).lower()


def is_written_without_spaces(word: str) -> bool:
    """Whether the word is in a script that puts no space between words, so that a name may hide inside it."""
    return script_of(word) in {"cjk", "hiragana", "katakana"}


def clean(text: str) -> str:
    """Return storable text: compatibility forms resolved, control characters and lone surrogates replaced."""
    readable = text.encode("utf-8", "replace").decode("utf-8")
    return "".join(
        "\n" if letter in "\r\n" else " " if unicodedata.category(letter) in {"Cc", "Cs", "Co", "Cn"} else letter
        for letter in unicodedata.normalize("NFC", readable)
    ).strip()


_EDGE: Final = 3
_SHORTEST: Final = 5
_TWO_ERRORS_FROM: Final = 8


def max_typos(name: str) -> int:
    """Return how many typing errors a folded name may hold: none under 5 letters, one under 8, two from there on."""
    letters = len(name.replace(" ", ""))
    if letters < _SHORTEST:
        return 0
    return 1 if letters < _TWO_ERRORS_FROM else 2


class TypoIndex:
    """Folded names by their first and last three letters.

    A name with one error keeps one of its two ends, if it has six letters or more, so one error is always found;
    two errors are found where they leave one end alone. That bounds the search to a few thousand comparisons.
    """

    __slots__ = ("_by_end", "_by_start", "_names")

    def __init__(self, names: Iterable[str]) -> None:
        self._names = list(names)
        self._by_start: dict[str, array[int]] = {}
        self._by_end: dict[str, array[int]] = {}
        for index, name in enumerate(self._names):
            self._by_start.setdefault(name[:_EDGE], array("I")).append(index)
            self._by_end.setdefault(name[-_EDGE:], array("I")).append(index)

    def near(self, name: str) -> list[tuple[int, str]]:
        """Return the indexed names within the typos allowed for `name` as (errors, name), best first, not `name`."""
        limit = max_typos(name)
        if limit == 0:
            return []
        starts, ends = {name[:_EDGE]}, {name[-_EDGE:]}
        if len(name) < 2 * _EDGE:
            # In a short name an error may touch both ends; a swap or a change within them is tried as well.
            starts |= _swapped(name[:_EDGE])
            ends |= _swapped(name[-_EDGE:])
        candidates = {index for start in starts for index in self._by_start.get(start, ())}
        candidates.update(index for end in ends for index in self._by_end.get(end, ()))
        found: list[tuple[int, str]] = []
        for index in candidates:
            other = self._names[index]
            if abs(len(other) - len(name)) <= limit:
                errors = edit_distance(name, other, limit)
                if 0 < errors <= limit and (errors == 1 or _spread_fairly(name, other)):
                    found.append((errors, other))
        return sorted(set(found))


def _spread_fairly(name: str, other: str) -> bool:
    """Whether no single word holds more errors than it may: `saint moritz` is not `saint jorioz`."""
    words, others = name.split(), other.split()
    if len(words) != len(others):
        return True
    pairs = [(word, max_typos(word), match) for word, match in zip(words, others, strict=True)]
    return all(edit_distance(word, match, limit) <= limit for word, limit, match in pairs)


def _swapped(edge: str) -> set[str]:
    return {edge[:at] + edge[at + 1] + edge[at] + edge[at + 2 :] for at in range(len(edge) - 1)}


def edit_distance(left: str, right: str, limit: int) -> int:
    """Insertions, deletions, changes and swaps of neighbours between two words; `limit + 1` for anything above it."""
    if left == right:
        return 0
    start = 0
    shorter = min(len(left), len(right))
    while start < shorter and left[start] == right[start]:
        start += 1
    end = 0
    while end < shorter - start and left[-1 - end] == right[-1 - end]:
        end += 1
    # A swap needs both its letters, and shared ends never hide one of them.
    left, right = left[start : len(left) - end], right[start : len(right) - end]
    if not left or not right:
        return min(limit + 1, len(left) + len(right))
    return _distance(left, right, limit)


def _distance(left: str, right: str, limit: int) -> int:
    before: list[int] = []
    previous = list(range(len(right) + 1))
    for row, letter in enumerate(left, start=1):
        current = [row]
        for column, other in enumerate(right, start=1):
            cost = min(previous[column] + 1, current[-1] + 1, previous[column - 1] + (letter != other))
            if row > 1 and column > 1 and letter == right[column - 2] and left[row - 2] == other:
                cost = min(cost, before[column - 2] + 1)
            current.append(cost)
        if min(current) > limit:
            return limit + 1
        before, previous = previous, current
    return min(previous[-1], limit + 1)
