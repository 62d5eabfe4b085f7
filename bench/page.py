"""Writes `docs/benchmarks.md` from the results that are kept, and from the notes beside them."""

import textwrap
from pathlib import Path

from bench.catalogue import SECTIONS, FigureColumn, Ratio, Section
from bench.results import Measured, Results, Subject

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
NOTES = Path(__file__).with_name("notes.md")
_HEAD = """\
# Benchmarks

Langlauf beside what one would use or build instead, and what its stores cost. Every section was measured in one run,
its subjects in turns; figures are medians of the rounds. Client, server, worker and database share one machine: trust
the ratios more than the digits, and take anything under about 1.3 for a tie.

This page is written by `make bench-peers`, which keeps what it found in `bench/results.json`: it installs the peers
into environments of their own, starts and stops PostgreSQL and Redis, and says what it left out where one is missing
(`apt-get install postgresql redis-server wrk`).

```console
$ make bench-peers
$ make bench-peers SECTIONS=http,polls ROUNDS=1
$ make bench-peers SECTIONS=store SIZES=1000,100000
```

{sections}

Your own disk or server is measured by [`langlauf bench`](commands.md#langlauf-bench).

The bare prototypes are no products: they have no leases, retries, heartbeats, tenants or limits, and show how fast the
same rows can be written by one process for the client and one for the worker. A queue on Redis may lose about a second
of jobs with the power; *synced* means that the disk has confirmed it before the caller goes on.
"""
_SECTIONS = """\
The sections are {names}; `store` means `cost` and `growth`.
"""
_BAR = 40


def page(results: Results, notes: str) -> str:
    """Return the whole page."""
    names = ", ".join(f"`{name}`" for name in SECTIONS)
    parts = [_HEAD.format(sections=_wrapped(_SECTIONS.format(names=names)))]
    parts += [_section(section, results.get(name)) for name, section in SECTIONS.items()]
    return "\n".join([*parts, notes.strip(), ""])


def write(results: Results) -> None:
    """Write the page where it belongs."""
    PAGE.write_text(page(results, NOTES.read_text("utf-8")), "utf-8")


def _section(section: Section, measured: Measured | None) -> str:
    lines = [f"## {section.title}", "", _wrapped(section.text), ""]
    if measured is None or not measured.subjects:
        return "\n".join([*lines, "Not measured yet.", ""])
    lines += [_wrapped(_circumstances(measured)), ""]
    if section.columns:
        lines += _subject_table(section, measured)
    else:
        lines += _figure_table(measured)
    if section.wanted:
        lines += ["", _wrapped(f"Wanted: {section.wanted}.")]
    if section.chart:
        lines += ["", *_chart(section, measured.subjects)]
    if measured.notes:
        lines += ["", *(f"- {note}" for note in dict.fromkeys(measured.notes))]
    return "\n".join([*lines, ""])


def _circumstances(measured: Measured) -> str:
    rounds = "1 round" if measured.rounds == 1 else f"{measured.rounds} rounds"
    versions = ", ".join(f"{name} {version}" for name, version in measured.versions.items())
    sizes = f", {measured.sizes}" if measured.sizes else ""
    return f"{measured.measured_at[:10]}, {measured.machine}, {rounds}{sizes}; {versions}."


def _subject_table(section: Section, measured: Measured) -> list[str]:
    ratio = section.ratio
    heads = ["", *(column.heading for column in section.columns), *([ratio.heading] if ratio else [])]
    marks = ["---", *["---:"] * (len(heads) - 1)]
    if section.on_disk:
        heads, marks = [*heads, "on disk when submitted / when ended"], [*marks, "---"]
    lines = [_row(heads), _row(marks)]
    best = _best(ratio, measured.subjects) if ratio else None
    for subject in measured.subjects:
        cells = [subject.name, *(_cell(subject, column) for column in section.columns)]
        if ratio:
            mine = subject.median(ratio.figure)
            cells.append(f"{mine / best:.2f}" if mine is not None and best else "")
        lines.append(_row([*cells, subject.on_disk] if section.on_disk else cells))
    return lines


def _figure_table(measured: Measured) -> list[str]:
    labels = dict.fromkeys(label for subject in measured.subjects for label in subject.figures)
    heads = ["", *(subject.name for subject in measured.subjects)]
    lines = [_row(heads), _row(["---", *["---:"] * (len(heads) - 1)])]
    for label in labels:
        medians = [subject.median(label) for subject in measured.subjects]
        lines.append(_row([label, *("" if one is None else _plain(one) for one in medians)]))
    return lines


def _best(ratio: Ratio, subjects: list[Subject]) -> float | None:
    known = [subject.median(ratio.figure) for subject in subjects if subject.name in ratio.against]
    return max((one for one in known if one is not None), default=None)


def _cell(subject: Subject, column: FigureColumn) -> str:
    median = subject.median(column.figure)
    return "" if median is None else f"{median:,.{column.digits}f}"


def _plain(figure: float) -> str:
    """Return a figure with about three digits."""
    for least, digits in ((100, 0), (10, 1)):
        if abs(figure) >= least:
            return f"{figure:,.{digits}f}"
    return f"{figure:.2f}"


def _chart(section: Section, subjects: list[Subject]) -> list[str]:
    """Return bars of text: they need no picture, and every reader of the page sees them."""
    column = next(column for column in section.columns if column.figure == section.chart)
    medians = [(subject, subject.median(section.chart)) for subject in subjects]
    known = [(subject, median) for subject, median in medians if median is not None]
    largest = max((median for _, median in known), default=0.0) or 1.0
    width = max(len(subject.name) for subject, _ in known)
    bars = [
        f"{subject.name:<{width}}  {'█' * max(1, round(_BAR * median / largest))} {median:,.{column.digits}f}"
        for subject, median in known
    ]
    return ["```text", column.heading, *bars, "```"]


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)
