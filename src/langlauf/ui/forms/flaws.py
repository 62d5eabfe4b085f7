"""What is wrong with an entry, in words of the reader's language."""

import re
from typing import Any

import msgspec
from markupsafe import Markup

from langlauf.ui.language import Language

#: What the checks of msgspec say, and the word it has here. The other words are those of `reading`.
_SAID = (
    ("shortest", re.compile(r"Expected `str` of length >= (?P<limit>\d+)")),
    ("longest", re.compile(r"Expected `str` of length <= (?P<limit>\d+)")),
    ("fewest", re.compile(r"Expected `(?:array|object)` of length >= (?P<limit>\d+)")),
    ("most", re.compile(r"Expected `(?:array|object)` of length <= (?P<limit>\d+)")),
    ("at_least", re.compile(r"Expected `\w+` >= (?P<limit>\S+)")),
    ("at_most", re.compile(r"Expected `\w+` <= (?P<limit>\S+)")),
    ("over", re.compile(r"Expected `\w+` > (?P<limit>\S+)")),
    ("under", re.compile(r"Expected `\w+` < (?P<limit>\S+)")),
    ("multiple", re.compile(r"Expected `\w+` that's a multiple of (?P<limit>\S+)")),
    ("pattern", re.compile(r"Expected `str` matching regex (?P<limit>.+)")),
    ("choice", re.compile(r"Invalid enum value (?P<limit>.+)")),
)
#: What the check of a web address says; whatever else it says means that it is none.
_TARGETS = (
    ("https", re.compile(r"the address must start with https://")),
    ("port", re.compile(r"the address must be at port (?P<limit>\d+)")),
    ("inner", re.compile(r"(?P<limit>\S+) is (?:a name inside|inside|an address of one|a cloud|no address)")),
    ("user", re.compile(r"the address must not have a user")),
    ("own", re.compile(r"the address is this server's own")),
    ("unsigned", re.compile(r"webhooks are signed")),
)
#: What the check of a receiver of mail says; whatever else it says means that it is no address.
_RECEIVERS = (
    ("mail_domain", re.compile(r"email: the domain of the address")),
    ("mail_unlisted", re.compile(r"email: the address is not on the list")),
)
WORDS = (
    *(word for word, _ in (*_SAID, *_TARGETS, *_RECEIVERS)),
    "mail",
    "address",
    "missing",
    "whole",
    "number",
    "json",
    "item",
    "other",
)


class Flaw(msgspec.Struct, frozen=True):
    """One flaw: its word, and what belongs into the sentence."""

    word: str
    values: dict[str, Any] = {}

    def say(self, language: Language) -> Markup:
        """The sentence."""
        values = {
            name: value.say(language) if isinstance(value, Flaw) else value for name, value in self.values.items()
        }
        return language.say(f"form.flaw.{self.word}", **values)


def flaw_of(message: str) -> Flaw:
    """What a check said: in our own words where they are known, else as it was said."""
    for word, pattern in _SAID:
        if found := pattern.match(message):
            return Flaw(word, {"limit": found["limit"].removesuffix(".0")})
    return Flaw("other", {"message": message})


def target_flaw(message: str) -> Flaw:
    """What the check of a web address said, in our own words."""
    for word, pattern in _TARGETS:
        if found := pattern.match(message):
            return Flaw(word, {"limit": found.groupdict().get("limit", "")})
    return Flaw("address")


def mail_flaw(message: str) -> Flaw:
    """What the check of a receiver of mail said, in our own words."""
    return Flaw(next((word for word, pattern in _RECEIVERS if pattern.match(message)), "mail"))


def in_list(number: int, flaw: Flaw) -> Flaw:
    """A flaw of one value of a list."""
    return Flaw("item", {"number": number, "flaw": flaw})
