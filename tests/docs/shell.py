"""Sessions in the documents: commands behind `$`, what they print below; and `curl` as requests of our own."""

import re
import shlex
from typing import NamedTuple

PROMPT = "$ "
_VALUE_FLAGS = {"-X": "method", "-H": "header", "-d": "data", "--json": "json"}
_BARE_FLAGS = frozenset({"-s", "-i", "-N", "-fsS"})


class Step(NamedTuple):
    """One command of a session and the output that the document shows for it."""

    command: str
    output: str


class Curl(NamedTuple):
    """What a `curl` command would send, and whether it shows the headers."""

    method: str
    url: str
    headers: dict[str, str]
    body: str | None
    shows_headers: bool


def steps_of(session: str) -> list[Step]:
    """The commands of a console block, in order."""
    steps: list[Step] = []
    for line in session.splitlines():
        if line.startswith(PROMPT):
            steps.append(Step(line.removeprefix(PROMPT), ""))
        elif steps:
            command, output = steps[-1]
            steps[-1] = Step(command, f"{output}{line}\n")
    return steps


def read_curl(command: str | list[str]) -> Curl:
    """Takes a command line apart; a flag that is not known here is an error, not a guess."""
    words = iter((shlex.split(command, comments=True) if isinstance(command, str) else command)[1:])
    method, body, url, shows_headers = None, None, None, False
    headers: dict[str, str] = {}
    for word in words:
        if word in _BARE_FLAGS:
            shows_headers = shows_headers or word == "-i"
        elif word in _VALUE_FLAGS:
            value = next(words)
            match _VALUE_FLAGS[word]:
                case "method":
                    method = value
                case "header":
                    name, _, text = value.partition(":")
                    headers[name.strip()] = text.strip()
                case "json":
                    body = value
                    headers |= {"Content-Type": "application/json", "Accept": "application/json"}
                case _:
                    body = value
                    headers.setdefault("Content-Type", "application/x-www-form-urlencoded")
        elif word.startswith("-") or url is not None:
            raise ValueError(f"{word!r} is not understood in: {command}")
        else:
            url = word
    if url is None:
        raise ValueError(f"no address in: {command}")
    return Curl(method or ("GET" if body is None else "POST"), url, headers, body, shows_headers)


def shown_status(output: str) -> int | None:
    """The status line of a shown answer."""
    match = re.match(r"HTTP/1\.1 (\d{3}) ", output)
    return int(match[1]) if match else None


def shown_headers(output: str) -> list[str]:
    """The names of the headers that are shown."""
    head = output.partition("\n\n")[0] if shown_status(output) else ""
    return re.findall(r"^([a-z-]+): ", head, re.MULTILINE)


def shown_facts(output: str) -> list[str]:
    """Every complete `"name":value` that is shown; what is cut short with … is none."""
    return re.findall(r'"\w+":(?:"[^"…]*"|-?\d+|true|false|null)(?=[,}\]])', output)


def shown_names(output: str) -> list[str]:
    """Every name of a member that is shown."""
    return re.findall(r'"(\w+)":', output)
