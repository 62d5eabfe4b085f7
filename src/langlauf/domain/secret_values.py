"""Values after the names of secrets in a text: where they start and end, and whether they are secrets.

A text is read once from start to end. Masked values are skipped; of others a bounded number of characters is examined.
So the time is linear in the length of the text.
"""
# ruff: noqa: E501 - a pattern reads best on one line

import re
from typing import NamedTuple

from langlauf.domain.secret_patterns import MASK, NAME, SIGNS, Family, compiled, family_of, is_about

#: The characters of a value that decide.
_LOOKED_AT = 128
_LONGEST_NAME = 40

_QUOTE = r"(?:\\{0,4}[\"'`]|&quot;|&#3[49];|%22)"
#: From the end of the word to the value: the rest of the name, and the separator.
_JOINT = re.compile(
    rf"(?P<rest>[\w.-]{{0,40}}+(?:\[\w{{0,20}}\])?)(?:\s(?:for|of)\s(?:user\s)?[^\s:=]{{1,60}}|\s(?:provided|given|supplied))?(?P<closing>{_QUOTE}?\]?\)?)(?P<gap>\s{{0,8}})"
    rf"(?:(?P<sign>:=|=>|->|={{1,3}}|::?|%3d|%3a)|(?P<comma>,)|(?P<xml>>)|(?P<verb>(?:is|was|set\sto|equals)\s))?(?P<space>\s{{0,8}})(?:!!\w{{1,10}}\s)?",
    re.IGNORECASE,
)
_OPEN = re.compile(rf"(?:[bruf]{{1,2}}(?=[\"']))?(?P<quote>{_QUOTE})")
#: A value without quotes. A separator ends it only if something else follows. Nothing comes after the repetition, so
#: there is no backtracking; a possessive quantifier is broken in the first releases of 3.11.
_BARE = re.compile(
    r"(?:\[redacted\]|\[|[^\s\"'`,;&|)\[\]}<>\\]+"
    r"|[,;&|)\]}>](?![\s,;&|)\]}>\"'`\\]|\Z|[\w.-]{1,40}\s?[=:]|quot;|\#\d)"
    r"|[\"'`](?=\w)|\\(?![\"'`]))+"
)
_LIST = re.compile(r"[\[({][^\[\](){}\n]{0,4000}[\])}]")
_LINE = re.compile(r"[^\n]*")
_XML = re.compile(r"[^<\n]*")
_TAG = re.compile(r"<[\w.:-]{0,60}\Z")
_SCHEME = re.compile(
    r"(?:bearer|basic|digest|token|apikey|api-key|negotiate|ntlm|aws4-hmac-sha256|sharedkey|hawk|dpop)\s{1,4}",
    re.IGNORECASE,
)
_SCHEMES_OF_PAIRS = frozenset({"digest", "aws4-hmac-sha256", "hawk", "dpop", "sharedkey"})
_PAIRS = re.compile(r"[^\n\"']*(?:\"[^\n\"]*\"[^\n\"']*)*")

#: Words in the place of a secret, or about one: nothing to hide.
_WORDS = frozenset(
    re.findall(
        r"\w+",
        """a an the is are was were be been must may should can cannot could has have had not no none null nil undefined nan
    true false yes on off empty missing required optional expired expires invalid valid incorrect wrong rejected refused
    denied accepted ok set unset changed given needed unknown unexpected expected found hidden masked removed omitted
    redacted str string text bytes int integer float bool boolean optional any varchar object list dict array number
    and or of for with without in at from to by as if when which that this it its your our their please too already
    only field value parameter header argument does did do will would were never also both see use using failed failure
    error revoked disabled enabled authentication authorization verification mismatch cookie token password secret
    kein keine nicht ist war fehlt falsch abgelaufen ungültig muss darf der die das ein eine""",
    )
)
_QUOTED_WORDS = frozenset(
    {"none", "null", "true", "false", "hidden", "masked", "redacted", "string", "str", "required", "missing", "invalid"}
)
_PLACEHOLDER = re.compile(
    r"…|[*•x.…#_-]{3,}|<[^<>\n]{0,60}>|\$\{?\w{1,60}\}?|\$\([^\n]{1,80}|\{\w{0,40}\}|%\(?\w{0,40}\)?s|%\w{1,40}%"
    r"|\[(?:redacted|hidden|masked|filtered|removed|secret|path)\]|:\w{1,40}",
    re.IGNORECASE,
)
#: Source code in tracebacks: a name or a call, not a value.
_CODE = re.compile(
    r"(?:self|cls|settings|config|conf|os|environ|env|args|kwargs|request|response|app|ctx|context|options|params|data|user|job|"
    r"account|client|session|headers|credentials|getpass|secrets|str|bytes|event|body|payload|props|process)"
    r"(?:\.[A-Za-z_]\w{0,60}|\[[^\]\n]{0,60}\]?|\()[^\n]{0,80}|[A-Za-z_][\w.]{0,80}\([^\n]{0,80}|Optional\[.{0,40}|(?:str|bytes|int)\s?\|.{0,30}"
)
_TEMPLATE = re.compile(r"\{\{[^{}\n]{0,60}\}\}|(?:await|lambda|not)\s")
_WORD = re.compile(r"[^\W\d_]{1,12}[.,:;!?]?", re.UNICODE)
_MORE_PROSE = re.compile(r"[ \t][^\W\d_]", re.UNICODE)
_ITEMS = re.compile(r"[\s\[\](){},\"']+")
_NUMBER = re.compile(r"[-+]?[\d.,_%:/ \[\](){}]{1,60}(?:[a-z]{0,2}|seconds|tokens)")
_LETTER = re.compile(r"[^\W\d_]")
_ODD = re.compile(r"[\d!#$%^&*+=~]")
_CAPITAL_INSIDE = re.compile(r"(?<=.)[A-Z]")
_PIN_NUMBER = re.compile(r"\d{3,8}|\d{3} \d{3}")
_PATH = re.compile(r"~?/|[A-Za-z]:\\|\.\.?/|file:")


class _Value(NamedTuple):
    """The position of a value in a text, without its quotes."""

    start: int
    end: int
    quoted: bool = False


class _Named(NamedTuple):
    """The name of a secret, with the separator before its value."""

    family: Family
    word: str
    joint: re.Match[str]
    flag: bool
    tag: bool
    quoted: bool

    @property
    def sign(self) -> str:
        return (self.joint.group("sign") or "").lower()

    @property
    def space(self) -> str:
        """Return the spaces before the value."""
        return self.joint.group("gap") + self.joint.group("space")

    @property
    def loose(self) -> bool:
        """Whether only a space or a verb separates name and value."""
        return not self.sign and not self.flag and not self.tag and not (self.quoted and self.joint.group("comma"))


def mask_named_values(text: str) -> str:
    """Return the text with values after the names of secrets masked."""
    low = text.lower()
    if len(low) != len(text):  # some letters have no lower case of the same length
        low = "".join(one.lower() if one.isascii() else one for one in text)
    if not [sign for sign in SIGNS if sign in low]:
        return text
    parts: list[str] = []
    done = at = 0
    name = compiled(NAME)
    while (found := name.search(low, at)) is not None:
        at = found.end()
        named = _named(text, low, found)
        if named is None or not _is_secret(text, named):
            continue
        value = _value(text, named, len(text))
        if value is not None:
            parts += (text[done : value.start], MASK)
            done = at = value.end
    return "".join((*parts, text[done:])) if parts else text


def _named(text: str, low: str, found: re.Match[str]) -> _Named | None:
    """Return the name that the word belongs to, or None if it names something else or has no value."""
    joint = _JOINT.match(text, found.end())
    if joint is None or not (joint.group("gap") or any(joint.group("sign", "comma", "xml"))):
        return None
    family = family_of(low, found.start())
    if family != "drawn" and is_about(low, found.end()):
        return None
    if low.endswith(("unexpected ", "undefined "), 0, found.start()):
        return None
    began = found.start()
    while (
        began > 0 and found.start() - began < _LONGEST_NAME and (text[began - 1].isalnum() or text[began - 1] in "_-.")
    ):
        began -= 1
    named = _Named(
        family=family,
        word=found.group(),
        joint=joint,
        flag=text.startswith("--", began) and joint.group("gap") != "" and not joint.group("sign"),
        tag=joint.group("xml") is not None and _TAG.search(text, max(0, began - 60), found.start()) is not None,
        quoted=text[max(0, began - 1) : began] in ("'", '"', "`") and joint.group("closing") != "",
    )
    stray = (joint.group("comma") and not named.quoted) or (joint.group("xml") and not named.tag)
    return None if stray else named


def _value(text: str, named: _Named, last: int) -> _Value | None:
    """Return the position of the value, examined up to `last`, or None."""
    at = named.joint.end()
    if (opened := _OPEN.match(text, at, last)) is not None:
        return _quoted(text, opened.end(), opened.group("quote"), last)
    if named.loose and "\n" in named.space:
        return None
    if named.word == "authorization" and (scheme := _SCHEME.match(text, at, last)) is not None:
        pairs = scheme.group().strip().lower() in _SCHEMES_OF_PAIRS
        return _found((_PAIRS if pairs else _BARE).match(text, scheme.end(), last))
    if named.tag:
        return _found(_XML.match(text, at, last))
    if _takes_line(text, named):
        return _found(_LINE.match(text, at, last))
    listed = _LIST.match(text, at, last) if named.sign else None
    return _found(listed or _BARE.match(text, at, last))


def _found(match: re.Match[str] | None) -> _Value | None:
    return None if match is None else _Value(*match.span())


def _takes_line(text: str, named: _Named) -> bool:
    """Whether all of the line is the value: a phrase of several words, or the pairs of a cookie."""
    if named.family == "phrase":
        return not named.loose
    at = named.joint.end()
    line = text[at : at + _LOOKED_AT].partition("\n")[0] if named.word == "cookie" and named.sign == ":" else ""
    return "=" in line


def _quoted(text: str, start: int, quote: str, last: int) -> _Value:
    """Return the value up to the closing quote, else up to the end of the line."""
    end = start - 1
    while (end := text.find(quote, end + 1, last)) >= 0:
        escaped = len(quote) == 1 and _backslashes(text, start, end) % 2 == 1
        if not escaped and not text[end + len(quote) : end + len(quote) + 1].isalnum():  # otherwise an apostrophe
            break
    end = last if end < 0 else end
    line = text.find("\n", start, end)
    return _Value(start, end if line < 0 else line, quoted=True)


def _backslashes(text: str, start: int, end: int) -> int:
    count = 0
    while end - count > start and text[end - count - 1] == "\\" and count < _LOOKED_AT:
        count += 1
    return count


def _is_secret(text: str, named: _Named) -> bool:
    """Whether the value is a secret, by its first characters."""
    value = _value(text, named, min(len(text), named.joint.end() + _LOOKED_AT))
    shown = "" if value is None else text[value.start : value.end].strip(" \t")
    if value is None or _is_harmless(text, named, value, shown):
        return False
    if named.family in ("password", "phrase"):
        return _is_password(named, value, shown)
    if named.family == "token":
        return _is_token(text, named, value, shown)
    if named.loose:
        return False
    if named.family == "pin":
        return _PIN_NUMBER.fullmatch(shown) is not None
    return _drawn(shown) or (named.family == "word" and (named.sign == "=" or value.quoted))


def _is_harmless(text: str, named: _Named, value: _Value, shown: str) -> bool:
    """Whether the value is empty, a placeholder, a word, or source code."""
    if not shown or shown == MASK or _PLACEHOLDER.fullmatch(shown):
        return True
    if shown.rstrip(".,:;!?)").lower() in (_QUOTED_WORDS if value.quoted else _WORDS):
        return True
    same = named.sign == "=" and shown.rstrip(",)") == _whole_name(text, named)
    is_code = same or _CODE.fullmatch(shown) or _TEMPLATE.match(text, value.start)
    return not value.quoted and bool(is_code)


def _whole_name(text: str, named: _Named) -> str:
    end = named.joint.end("rest")
    start = named.joint.start()
    while start > 0 and (text[start - 1].isalnum() or text[start - 1] == "_"):
        start -= 1
    return text[start:end]


def _is_password(named: _Named, value: _Value, bare: str) -> bool:
    if named.word.endswith("pwd") and _PATH.match(bare):
        return False
    if named.word.endswith("s") and _NUMBER.fullmatch(bare):
        return False
    if named.loose:
        return (value.quoted and not named.joint.group("comma")) or _drawn(bare, least=6)
    return True


def _is_token(text: str, named: _Named, value: _Value, bare: str) -> bool:
    several = named.joint.group("rest").startswith("s") or named.word.endswith("s")
    if _NUMBER.fullmatch(bare) and (several or len(bare) < 4):  # noqa: PLR2004 - a number of them, no secret
        return False
    if value.start > named.joint.end() and not value.quoted:  # after the scheme of an Authorization header
        return True
    if several or named.loose:
        return any(_drawn(one) for one in _ITEMS.split(bare))
    if _PATH.match(bare):
        return False
    # A sentence continues after the colon.
    prose = named.sign == ":" and named.joint.group("space") and not value.quoted and _WORD.fullmatch(bare)
    return not (prose and _MORE_PROSE.match(text, value.end))


def _drawn(value: str, least: int = 8) -> bool:
    """Whether a value looks random: neither a word nor a number."""
    if len(value) < least or _LETTER.search(value) is None:
        return False
    return _ODD.search(value) is not None or (_CAPITAL_INSIDE.search(value) is not None and not value.isupper())
