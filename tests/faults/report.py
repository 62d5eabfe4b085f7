"""The report of a run: one row per figure, with its promise and whether it was kept."""

from collections.abc import Sequence

import msgspec
from rich.console import Console
from rich.table import Table

_COLUMNS = ("scenario", "figure", "found", "promised", "kept")
#: None in N tries: with 95 % confidence the rate is below this divided by N.
_RULE_OF_THREE = 3


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure. Without a promise it is informational."""

    what: str
    value: float
    shown: str
    promise: str = ""
    kept: bool = True
    #: out of how many, if it counts what must not happen
    tries: int | None = None
    #: a duration or a ratio of durations: means little beside other programs
    timed: bool = False


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one scenario."""

    scenario: str
    seconds: float
    figures: list[Figure]

    @property
    def broken(self) -> list[Figure]:
        """The promises that were broken."""
        return [figure for figure in self.figures if not figure.kept]


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """All scenarios of one run."""

    seed: int
    scale: float
    cores: int
    python: str
    sqlite: str
    reports: list[Report]

    @property
    def kept(self) -> bool:
        """Whether every promise was kept."""
        return not any(report.broken for report in self.reports)


def measured(what: str, value: float, shown: str | None = None) -> Figure:
    """Create an informational figure."""
    return Figure(what=what, value=value, shown=shown or f"{value:,}")


def measured_seconds(what: str, seconds: float) -> Figure:
    """Create an informational duration."""
    return measured(what, round(seconds, 4), f"{seconds:.2f} s")


def never(what: str, count: int, tries: int) -> Figure:
    """Create a figure that must be 0; without a try it is not kept."""
    bound = f", 95 %: under {_per_cent(_RULE_OF_THREE / tries)}" if tries and not count else ""
    return Figure(
        what=what,
        value=count,
        shown=f"{count:,} of {tries:,}{bound}",
        promise="0",
        kept=count == 0 and tries > 0,
        tries=tries,
    )


def all_of(what: str, count: int, tries: int) -> Figure:
    """Create a figure that must be the number of tries."""
    kept = count == tries and tries > 0
    return Figure(what=what, value=count, shown=f"{count:,} of {tries:,}", promise="all", kept=kept, tries=tries)


def at_least(what: str, value: int, least: int) -> Figure:
    """Create a figure with a minimum."""
    return Figure(what=what, value=value, shown=f"{value:,}", promise=f"{least:,} or more", kept=value >= least)


def at_most(what: str, value: float, limit: float, unit: str = "") -> Figure:
    """Create a figure with a maximum."""
    shown, promise = f"{value:.2f}{unit}", f"{limit:.2f}{unit} or less"
    return Figure(what=what, value=round(value, 4), shown=shown, promise=promise, kept=value <= limit)


def quick(what: str, value: float, limit: float, unit: str = "") -> Figure:
    """Create a duration with a maximum that only a quiet machine keeps; the command judges it, a test does not."""
    return msgspec.structs.replace(at_most(what, value, limit, unit), timed=True)


def _per_cent(share: float) -> str:
    return f"{min(share, 1) * 100:.2g} %"


def rows_of(reports: Sequence[Report]) -> list[tuple[str, ...]]:
    """Return the rows of the table."""
    return [
        (report.scenario, figure.what, figure.shown, figure.promise, _word(figure))
        for report in reports
        for figure in report.figures
    ]


def _word(figure: Figure) -> str:
    if not figure.promise:
        return ""
    return "yes" if figure.kept else "NO"


def heading(run: Run) -> str:
    """Return what was run, and on which machine."""
    cores = f"{run.cores} core" + ("s" if run.cores > 1 else "")
    seconds = sum(report.seconds for report in run.reports)
    return f"seed {run.seed}, scale {run.scale:g}, {seconds:.0f} s; {cores}, Python {run.python}, SQLite {run.sqlite}"


def print_table(run: Run) -> None:
    """Print a table on standard output."""
    table = Table(title=heading(run), title_justify="left")
    for column in _COLUMNS:
        table.add_column(column, justify="right" if column == "found" else "left")
    for row in rows_of(run.reports):
        table.add_row(*row, style="bold red" if row[-1] == "NO" else None)
    Console().print(table)


def as_markdown(run: Run) -> str:
    """Return the table as Markdown."""
    rows = [_COLUMNS, ("---", "---", "---:", "---", "---"), *rows_of(run.reports)]
    return "\n".join([heading(run), "", *("| " + " | ".join(row) + " |" for row in rows)])


def as_json(run: Run) -> str:
    """Return everything as JSON."""
    return msgspec.json.format(msgspec.json.encode(run), indent=2).decode()
