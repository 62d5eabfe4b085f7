"""Names made comparable: one folded spelling for every way of writing the same name."""

import re
import unicodedata
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
    """The spelling names are compared by: lower case, no accents, no punctuation, `St.` and `Sankt` as `saint`."""
    return fold_lines(" ".join(text.splitlines()))[0]


def fold_lines(text: str) -> list[str]:
    """Every line folded. One call for many names takes half the time of many calls."""
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
    """The folded name itself first, then with `ae`, `oe`, `ue` read as written-out umlauts, in every combination."""
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
    """The script most of the name's letters are written in, such as `latin` or `cyrillic`; `other` if none is known."""
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
    """The text as it can be stored: compatibility forms resolved, control characters and lone surrogates replaced."""
    readable = text.encode("utf-8", "replace").decode("utf-8")
    return "".join(
        "\n" if letter in "\r\n" else " " if unicodedata.category(letter) in {"Cc", "Cs", "Co", "Cn"} else letter
        for letter in unicodedata.normalize("NFC", readable)
    ).strip()
