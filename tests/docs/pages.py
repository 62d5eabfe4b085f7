"""The documents as tests read them: sections, tables, blocks of code and links."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#{1,6}) (.+)$", re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`]+)`")


class Block(NamedTuple):
    """A fenced block and the word behind its fence."""

    language: str
    text: str


def read(page: str) -> str:
    """A document by its path in the repository."""
    return (ROOT / page).read_text("utf-8")


def pages() -> list[Path]:
    """Every document that is written by hand."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def blocks(page: str, *languages: str) -> list[Block]:
    """The fenced blocks of a document in these languages."""
    return [block for block in map(Block._make, _FENCE.findall(read(page))) if block.language in languages]


def without_code(text: str) -> str:
    """A document without its fenced blocks: what looks like a heading or a link in them is none."""
    return _FENCE.sub("", text)


def sections(page: str) -> dict[str, str]:
    """The text under each heading, up to the next heading of whatever level."""
    parts = _HEADING.split(without_code(read(page)))[1:]
    return {title: body for _, title, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True)}


def rows(text: str) -> list[list[str]]:
    """The cells of every table row in a text; heads and rules are left out."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    rules = {index for index, cells in enumerate(found) if all(set(cell) <= {"-", ":"} for cell in cells)}
    return [cells for index, cells in enumerate(found) if index not in rules and index + 1 not in rules]


def words(text: str) -> list[str]:
    """What stands in backticks."""
    return _CODE.findall(text)


def links(text: str) -> list[str]:
    """The targets of all links outside of code."""
    return _LINK.findall(without_code(text))


def anchors(text: str) -> set[str]:
    """The anchors that the headings of a document make."""
    titles = [title for _, title in _HEADING.findall(without_code(text))]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
