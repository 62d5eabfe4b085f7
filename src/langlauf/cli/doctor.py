"""`langlauf doctor`: run all checks of a store, its workers and its settings, and print the findings."""

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import click
import msgspec
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.table import Table
from rich.text import Text

from langlauf.cli.options import CommandError, ExitCode, json_option, plain, store_option
from langlauf.cli.stores import payloads_for, place_for, settings_for
from langlauf.doctor import CHECK_SECONDS, run_checks
from langlauf.doctor.check import CheckLevel, DoctorTarget, Finding
from langlauf.doctor.probe import Probe
from langlauf.domain.errors import LanglaufError
from langlauf.domain.text import counted
from langlauf.settings import Settings
from langlauf.store.tools.drivers import inspector_of
from langlauf.version import VERSION

_STYLES = {
    CheckLevel.OK: "green",
    CheckLevel.WARNING: "yellow",
    CheckLevel.ERROR: "bold red",
    CheckLevel.UNKNOWN: "magenta",
}
_DEEP_SECONDS = 3_600.0


@click.command()
@store_option
@click.option("--url", default=None, metavar="URL", help="The server for --probe. [LANGLAUF_URL]")
@click.option("--key", default=None, metavar="SECRET", help="The key or token for --probe. [LANGLAUF_KEY]")
@click.option("--probe", is_flag=True, help="Also run two small jobs through the server, and time each step.")
@click.option("--deep", is_flag=True, help="Check all blobs and the whole file, however long that takes.")
@click.option("--strict", is_flag=True, help="Exit 1 for warnings, too.")
@json_option
def doctor(
    store: str | None, url: str | None, key: str | None, probe: bool, deep: bool, strict: bool, as_json: bool
) -> None:
    """Check a store, its workers and its settings.

    Prints what to do next, and changes nothing. Safe beside a running server. Exit 0: no errors (warnings aside), 1:
    errors, 2: could not be checked.
    """
    try:
        settings = settings_for(store)
    except CommandError as error:
        findings, shown = [_unchecked("settings", error.message)], "settings"
    else:
        shown, found = _examined(settings, named=store is not None, deep=deep)
        findings = _collect(found)
        if probe:
            findings += _collect(Probe(url or settings.url, key or settings.key or settings.auth_token).findings())
    _print(shown, findings, as_json=as_json)
    sys.exit(exit_code(findings, strict=strict))


def exit_code(findings: list[Finding], *, strict: bool) -> int:
    """Return the exit code; errors take precedence over checks that could not run."""
    levels = {finding.level for finding in findings}
    if CheckLevel.ERROR in levels or (strict and CheckLevel.WARNING in levels):
        return ExitCode.FAILED
    return ExitCode.USAGE if CheckLevel.UNKNOWN in levels else ExitCode.OK


def _examined(settings: Settings, *, named: bool, deep: bool) -> tuple[str, Iterator[Finding]]:
    try:
        place = place_for(settings)
    except CommandError as error:
        return "no store", iter([_unchecked("store", error.message)])

    def look() -> Iterator[Finding]:
        seconds = _DEEP_SECONDS if deep else CHECK_SECONDS
        try:
            with closing(inspector_of(place, seconds=seconds)) as inspector, payloads_for(settings) as payloads:
                target = DoctorTarget(
                    settings, place, inspector, named=named, payloads=payloads, deep=deep, version=VERSION
                )
                yield from run_checks(target, seconds=seconds)
        except (LanglaufError, CommandError) as error:
            step = "langlauf serve --help"
            yield Finding("store", CheckLevel.UNKNOWN, str(error), step)

    return place.shown, look()


def _unchecked(name: str, words: str) -> Finding:
    return Finding(name, CheckLevel.UNKNOWN, words, "langlauf serve --help")


def _collect(found: Iterator[Finding]) -> list[Finding]:
    """Return all findings, showing the name of the last check on the terminal."""
    findings = []
    with _spinner() as show:
        for finding in found:
            findings.append(finding)
            show(finding.name)
    return findings


@contextmanager
def _spinner() -> Iterator[Callable[[str], None]]:
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("checking")
        yield lambda name: bar.update(task, description=name)


def _print(shown: str, findings: list[Finding], *, as_json: bool) -> None:
    counts = {level.value: sum(one.level is level for one in findings) for level in CheckLevel}
    if as_json:
        ok = not counts[CheckLevel.ERROR] and not counts[CheckLevel.UNKNOWN]
        click.echo(msgspec.json.encode({"ok": ok, "store": shown, "counts": counts, "findings": findings}))
        return
    console = Console()
    if console.is_terminal:
        console.print(_table(findings))
    else:
        for one in findings:
            click.echo(f"{one.level:8} {one.name:18} {plain(one.seen)}")
            if one.next is not None:
                click.echo(f"{'':8} {'next':18} {one.next}")
    others = [counted(counts[level], level) for level in (CheckLevel.WARNING, CheckLevel.ERROR) if counts[level]]
    others += [f"{counts[CheckLevel.UNKNOWN]} unknown"] if counts[CheckLevel.UNKNOWN] else []
    click.echo(f"{shown}: {len(findings)} checks, {', '.join(others) or 'no problems'}", err=True)


def _table(findings: list[Finding]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("", "check", "seen"):
        table.add_column(heading, overflow="fold")
    for one in findings:
        seen = Text(one.seen, style="dim" if one.level is CheckLevel.OK else "")
        if one.next is not None:
            seen.append(f"\n→ {one.next}", style="bold")
        table.add_row(Text(one.level, style=_STYLES[one.level]), Text(one.name), seen)
    return table
