"""What people read of an analysis: its title, the label of a job, the facts of a result, and translations of them."""

import re
from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from typing import Any

import msgspec

from langlauf.domain.errors import RegistrationError
from langlauf.domain.job import LONGEST_LABEL
from langlauf.domain.redact import clean_text, is_secret_name
from langlauf.domain.result import Fact

_LONGEST_TITLE = 120
#: Of a list so many values are part of a label, and of a text so many characters.
_MOST_VALUES, _LONGEST_VALUE = 8, 4 * LONGEST_LABEL
#: Longer texts are not compared with patterns.
_LONGEST_PATTERN_TEXT = 2_000
_PLACEHOLDER = "{}"
_LANGUAGE = re.compile(r"[a-z]{2,3}", re.ASCII)


class Wording(msgspec.Struct, frozen=True, kw_only=True):
    """The words of one analysis, as its author gave them."""

    title: str = ""
    #: a format with names of parameters, such as `{query}`
    label: str = ""
    #: in the order in which pages show them
    facts: tuple[Fact, ...] = ()
    #: by language: a text of the analysis, and what stands for it; a `{}` in both is any text
    texts: Mapping[str, Mapping[str, str]] = {}
    patterns: Mapping[str, Sequence[tuple[re.Pattern[str], str]]] = {}

    def translate(self, text: str, language: str, write: Callable[[str], str] = str) -> str:
        """Return a text in a language; the text itself where no translation is known. Case and spaces count.

        `write` gets the parts in place of a `{}` that have no translation themselves, such as numbers.
        """
        known = self.texts.get(language)
        if not known or not text:
            return text
        if (exact := known.get(text)) is not None:
            return exact
        if len(text) > _LONGEST_PATTERN_TEXT:
            return text
        for pattern, wording in self.patterns[language]:
            if found := pattern.fullmatch(text):
                parts = [(part, self.translate(part, language, write)) for part in found.groups()]
                return wording.format(*(write(part) if part == said else said for part, said in parts))
        return text

    def label_of(self, values: msgspec.Struct) -> str | None:
        """Return the label of a job with this input, or None where the analysis gives none."""
        if not self.label:
            return None
        names = [name for _, name, _, _ in Formatter().parse(self.label) if name is not None]
        texts = {name: _value_text(getattr(values, name)) for name in names}
        return clean_label(self.label.format_map(texts)) if any(texts.values()) else None


def clean_label(text: str) -> str | None:
    """Return a label on one line, bounded and without secrets, or None where nothing is left of it."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text[: 8 * LONGEST_LABEL]).split())
    return clean_text(line, LONGEST_LABEL) or None


def _value_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value[:_LONGEST_VALUE]
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(_value_text(one) for one in list(value)[:_MOST_VALUES])
    return str(value)[:_LONGEST_VALUE]


def wording_of(name: str, parameters: tuple[str, ...], rules: dict[str, Any]) -> Wording:
    """Take the words out of the rules of an analysis; refuse what no page could show."""
    title, label = rules.pop("title", ""), rules.pop("label", "")
    facts, texts = tuple(rules.pop("facts", ())), rules.pop("texts", {})
    if not isinstance(title, str) or len(title) > _LONGEST_TITLE:
        raise RegistrationError(f"{name}: title is a text of at most {_LONGEST_TITLE} characters")
    _check_label(name, label, parameters)
    if not all(isinstance(fact, Fact) for fact in facts):
        raise RegistrationError(f'{name}: facts is a list of views.fact("key", label="…", unit="…")')
    for language, known in texts.items():
        _check_texts(name, language, known)
    patterns = {language: _patterns(known) for language, known in texts.items()}
    return Wording(title=title, label=label, facts=facts, texts=texts, patterns=patterns)


def _check_label(name: str, label: str, parameters: tuple[str, ...]) -> None:
    try:
        fields = [(field, form, how) for _, field, form, how in Formatter().parse(label) if field is not None]
    except (TypeError, ValueError) as error:
        raise RegistrationError(f'{name}: label must look like "{{query}}": {error}') from None
    for field, form, how in fields:
        if form or how or field not in parameters:
            known = ", ".join(parameters) or "none"
            raise RegistrationError(f"{name}: label has {{{field}}}, which is not a parameter; parameters are: {known}")
        if is_secret_name(field):
            raise RegistrationError(f"{name}: label has {{{field}}}, which looks like a secret")


def _check_texts(name: str, language: Any, known: Any) -> None:
    if not isinstance(language, str) or not _LANGUAGE.fullmatch(language) or not isinstance(known, Mapping):
        raise RegistrationError(f'{name}: texts is a dict of languages, such as {{"de": {{"Place": "Ort"}}}}')
    for text, wording in known.items():
        if not isinstance(text, str) or not isinstance(wording, str):
            raise RegistrationError(f"{name}: texts[{language!r}] has {text!r}: {wording!r}, and both must be texts")
        if _PLACEHOLDER in text:
            if not text.replace(_PLACEHOLDER, "").strip():
                raise RegistrationError(f"{name}: texts[{language!r}] has {text!r}, which stands for every text")
            try:
                wording.format(*[""] * text.count(_PLACEHOLDER))
            except (LookupError, ValueError):
                raise RegistrationError(
                    f"{name}: texts[{language!r}] has {text!r}, whose translation needs as many {{}} or fewer"
                ) from None


def _patterns(known: Mapping[str, str]) -> list[tuple[re.Pattern[str], str]]:
    """Return the texts with a `{}`, those with the most words of their own first."""
    found = [(text, wording) for text, wording in known.items() if _PLACEHOLDER in text]
    found.sort(key=lambda pair: -len(pair[0].replace(_PLACEHOLDER, "")))
    return [
        (re.compile("(.+?)".join(re.escape(part) for part in text.split(_PLACEHOLDER)), re.DOTALL), wording)
        for text, wording in found
    ]
