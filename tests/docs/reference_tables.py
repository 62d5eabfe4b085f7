"""The tables of the reference pages that follow from the code: `python -m tests.docs.reference_tables` writes them.

Each table is found by its page and heading. Names, flags, defaults, units, types, labels and help come from the code.
Cells that only a person can write, such as what to do when a metric looks bad, are kept by the name in their row.
A test compares the pages with what this command would write.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import click

from langlauf.api.record_schemas import JobStatusOut
from langlauf.cli.main import main as program
from langlauf.cli.options import flag_of
from langlauf.doctor import CHECKS
from langlauf.doctor.probe import STEPS
from langlauf.domain.event import EventType
from langlauf.domain.job import field_descriptions
from langlauf.limits import LIMITS
from langlauf.problems import TITLES
from langlauf.settings import GROUPS, SETTINGS, Setting
from langlauf.telemetry.log import LogEvent
from langlauf.telemetry.metrics import INSTRUMENTS, process_registry
from tests.docs.pages import ROOT, read, rows, words

Rows = list[list[str]]
SERVER_FLAGS = "Flags of `serve` and `worker`"
CLIENT_FLAGS = "Flags of client commands"
#: Settings that only client commands read; they come last.
CLIENT_SETTINGS = 3
METRIC_SECTIONS = (
    "Jobs",
    "Workers, requests and followers",
    "The store",
    "Maintenance",
    "Deliveries",
    "The process",
)


class Table(NamedTuple):
    """A table under a heading, and the rows it should have, made from those it has."""

    page: str
    heading: str
    make: Callable[[Rows], Rows]


def commands(group: click.Group = program, prefix: str = "langlauf") -> dict[str, click.Command]:
    """Return every command by its whole name."""
    found: dict[str, click.Command] = {}
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            found |= commands(command, f"{prefix} {name}")
        else:
            found[f"{prefix} {name}"] = command
    return found


def show_default(default: Any) -> str:
    """Return the default of a setting as the page shows it."""
    if default in (None, (), {}):
        return "not set"
    if isinstance(default, tuple):
        return f"`{','.join(show_default(one).strip('`') for one in default)}`"
    if isinstance(default, bool | float):
        default = int(default) if default == int(default) else default
    return f"`{default}`"


def _settings(group: str) -> Callable[[Rows], Rows]:
    def make(_: Rows) -> Rows:
        return [
            [f"`{one.environment}`", f"`{flag_of(one)}`", show_default(one.default), one.unit, one.help]
            for one in GROUPS[group]
        ]

    return make


def _limits(_: Rows) -> Rows:
    return [[f"`{one.name}`", show_default(one.default), one.unit, one.help] for one in LIMITS]


def _server_flags(old: Rows) -> Rows:
    settings = {flag_of(one) for one in SETTINGS}
    options = [one for one in commands()["langlauf serve"].params if isinstance(one, click.Option)]
    own = [
        [f"`{one.opts[0]}`", "`serve` only, no environment", one.help or ""]
        for one in options
        if not settings & set(one.opts) and one.opts[0] != "--help"
    ]
    return own + [_server_flag(one, old) for one in SETTINGS[:-CLIENT_SETTINGS]]


def _server_flag(one: Setting, old: Rows) -> list[str]:
    known = {words(cells[0])[0]: cells[0] for cells in old}
    flag = known.get(flag_of(one), f"`{flag_of(one)}` {one.unit.upper()}")
    takers = [word for word in ("serve", "worker") if _takes(commands()[f"langlauf {word}"], flag_of(one))]
    only = "" if len(takers) > 1 else f", `{takers[0]}` only"
    return [flag, f"`{one.environment}`{only}", one.help]


def _takes(command: click.Command, flag: str) -> bool:
    return any(flag in one.opts for one in command.params)


def _flags_of(command: click.Command) -> Callable[[Rows], Rows]:
    """Make rows for the flags of one command; what stands behind the words of `--help` is kept."""

    def make(old: Rows) -> Rows:
        options = {one.opts[0]: one for one in command.params if isinstance(one, click.Option)}
        listed = {words(cells[0])[0]: cells for cells in old}
        shared = {flag for page in (SERVER_FLAGS, CLIENT_FLAGS) for flag in _flags_under(page)}
        names = [*(name for name in listed if name in options), *(set(options) - set(listed) - shared)]
        return [_flag(options[name], listed.get(name)) for name in names]

    return make


def _flags_under(heading: str) -> set[str]:
    return {word for cells in table_under("docs/commands.md", heading) for word in words(cells[0])}


def _flag(option: click.Option, old: list[str] | None) -> list[str]:
    text = option.help or "no help"
    names = ", ".join(f"`{name}`" for name in option.opts)
    if old is None:
        return [names if option.is_flag else f"{names} {(option.metavar or 'VALUE').upper()}", text]
    return [old[0], old[1] if old[1].startswith(text) else text]


def _metrics(heading: str) -> Callable[[Rows], Rows]:
    """Make the rows of one section; a metric that is in none comes at the end of the last."""
    types = {meter.name: (str(meter.kind), list(meter.labels), meter.help) for meter in INSTRUMENTS}
    for family in process_registry().collect():
        if family.name.startswith("process_"):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            types[name] = (family.type, [], family.documentation)

    def make(old: Rows) -> Rows:
        names = [name for cells in old if (name := words(cells[0])[0]) in types]
        if heading == METRIC_SECTIONS[-1]:
            listed = {words(cells[0])[0] for one in METRIC_SECTIONS for cells in table_under("docs/metrics.md", one)}
            names += [name for name in types if name not in listed]
        by_name = {words(cells[0])[0]: cells for cells in old}
        return [_metric(name, *types[name], by_name.get(name)) for name in names]

    return make


def _metric(name: str, kind: str, labels: list[str], text: str, old: list[str] | None) -> list[str]:
    shown = ", ".join(f"`{label}`" for label in labels)
    if old is None:
        return [f"`{name}`", kind, shown, text, ""]
    return [f"`{name}`", old[1] if old[1].partition(",")[0] == kind else kind, shown, *old[3:]]


def _keyed(known: Iterable[str], column: int, width: int) -> Callable[[Rows], Rows]:
    """Make rows for names of the code, in the order that the page has; a new name is a row to be filled in."""
    names = list(known)

    def make(old: Rows) -> Rows:
        kept = [cells for cells in old if set(words(cells[column])) & set(names)]
        listed = {word for cells in kept for word in words(cells[column])}
        new = [name for name in names if name not in listed]
        return kept + [[f"`{name}`" if index == column else "" for index in range(width)] for name in new]

    return make


def _job_fields(old: Rows) -> Rows:
    by_hand = {words(cells[0])[0]: cells[1] for cells in old}
    texts = {**by_hand, **field_descriptions()}
    return [[f"`{name}`", texts.get(name, "")] for name in JobStatusOut.__struct_fields__]


def _doctor(_: Rows) -> Rows:
    checks = [[f"`{one.name}`", one.needs.shown, one.expectation] for one in CHECKS]
    return checks + [[f"`{one.name}`", "`--probe`", one.expectation] for one in STEPS]


def tables() -> list[Table]:
    """Return all of them."""
    own = [
        Table("docs/commands.md", f"`{name}`", _flags_of(command))
        for name, command in commands().items()
        if table_under("docs/commands.md", f"`{name}`")
    ]
    return [
        *(Table("docs/settings.md", group, _settings(group)) for group in GROUPS),
        Table("docs/settings.md", "Limits", _limits),
        Table("docs/commands.md", SERVER_FLAGS, _server_flags),
        *own,
        *(Table("docs/metrics.md", heading, _metrics(heading)) for heading in METRIC_SECTIONS),
        Table("docs/http_api.md", "Errors", _keyed(TITLES, column=1, width=4)),
        Table("docs/http_api.md", "GET /analyze/jobs/{job_id}", _job_fields),
        Table("docs/lifecycle.md", "Events", _keyed(EventType, column=0, width=3)),
        Table("docs/operations.md", "Log", _keyed(LogEvent, column=0, width=4)),
        Table("docs/operations.md", "Doctor", _doctor),
    ]


def table_under(page: str, heading: str) -> Rows:
    """Return the rows of the first table under a heading."""
    start, end = _place_of(read(page), heading)
    return rows(read(page)[start:end])


def _place_of(text: str, heading: str) -> tuple[int, int]:
    """Return where the first table under a heading begins and ends; both are the same where there is none."""
    found = re.search(rf"^#+ {re.escape(heading)}$", text, re.MULTILINE)
    assert found is not None, heading
    fenced, start, place = False, 0, found.end() + 1
    for line in text[place:].splitlines(keepends=True):
        fenced ^= line.startswith("```")
        if line.startswith("|") and not fenced:
            start = start or place
        elif start or (line.startswith("#") and not fenced):
            break
        place += len(line)
    return (start, place) if start else (place, place)


def rewrite(page: str) -> str:
    """Return a page with its tables as the code has them."""
    text = read(page)
    for table in tables():
        if table.page != page:
            continue
        start, end = _place_of(text, table.heading)
        assert start < end, f"{page} has no table under {table.heading}"
        head = text[start:end].splitlines()[:2]
        made = table.make(rows(text[start:end]))
        lines = [*head, *(re.sub(r"\|  (?=\|)", "| ", f"| {' | '.join(cells)} |") for cells in made)]
        text = text[:start] + "\n".join(lines) + "\n" + text[end:]
    return text


PAGES = tuple(dict.fromkeys(table.page for table in tables()))


def write() -> None:
    """Write every page that differs, and say which."""
    for page in PAGES:
        text = rewrite(page)
        if text != read(page):
            (ROOT / page).write_text(text, "utf-8")
            print(f"wrote {page}")


if __name__ == "__main__":
    write()
