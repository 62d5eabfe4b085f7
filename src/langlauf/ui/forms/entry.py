"""One entry of a form: what a person fills in for one parameter."""

from enum import StrEnum

import msgspec


class Kind(StrEnum):
    """How an entry is filled in."""

    #: one line
    TEXT = "text"
    #: as many lines as it takes; can also come from a file
    LONG = "long"
    DATE = "date"
    WHOLE = "whole"
    NUMBER = "number"
    #: a box that is ticked or not
    FLAG = "flag"
    CHOICE = "choice"
    #: a list, one value a line
    LINES = "lines"
    #: whatever has no form of its own
    JSON = "json"


class Choice(msgspec.Struct, frozen=True):
    """One of a few values: as JSON, and as people read it."""

    value: str
    label: str


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter as a part of a form."""

    name: str
    kind: Kind
    required: bool = False
    #: what it belongs to: the input of the analysis, or what else a form asks for
    room: str = "in"
    #: whether nothing at all is a value of its own
    nullable: bool = False
    description: str = ""
    #: the default as a person would write it
    initial: str = ""
    examples: tuple[str, ...] = ()
    choices: tuple[Choice, ...] = ()
    #: what the browser can check by itself, as attributes of HTML
    limits: dict[str, str] = {}
    #: what a list holds
    item: Kind = Kind.TEXT
    #: whether its name tells that nobody should look over a shoulder
    secret: bool = False

    @property
    def field(self) -> str:
        """Its name in the form: apart from everything else that a form sends."""
        return f"{self.room}.{self.name}"

    @property
    def label(self) -> str:
        """Its name as a word of a sentence."""
        words = self.name.strip("_").replace("_", " ") or self.name
        return words[0].upper() + words[1:]

    @property
    def from_file(self) -> bool:
        """Whether it may be long enough to come from a file."""
        return self.kind in (Kind.LONG, Kind.LINES, Kind.JSON)
