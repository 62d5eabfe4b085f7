"""Command that runs scenarios, all or by name, prints a table and exits with 1 if a promise was broken."""

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import click

from tests.faults.plan import Plan
from tests.faults.report import as_json, as_markdown, print_table
from tests.faults.suite import Scenario, run_all
from tests.support.tiers import choose_seed


def command(scenarios: Mapping[str, Scenario], what: str) -> click.Command:
    """Create a command over scenarios."""

    def names(_: click.Context, __: click.Parameter, value: str | None) -> list[str]:
        chosen = value.split(",") if value else list(scenarios)
        if unknown := set(chosen) - set(scenarios):
            raise click.BadParameter(f"{', '.join(sorted(unknown))}: there are {', '.join(scenarios)}")
        return chosen

    @click.command(help=what)
    @click.option("--seed", type=int, default=None, help="Draws the same schedule again.  [default: a new one]")
    @click.option(
        "--scale", type=click.FloatRange(0, min_open=True), default=1.0, show_default=True, help="How much of it."
    )
    @click.option("--only", callback=names, metavar="NAMES", help="These scenarios alone, with commas between.")
    @click.option(
        "--json", "json_to", type=click.Path(dir_okay=False, path_type=Path), help="Also write JSON to a file."
    )
    @click.option("--markdown", is_flag=True, help="The table as Markdown.")
    def main(seed: int | None, scale: float, only: list[str], json_to: Path | None, markdown: bool) -> None:
        seed = choose_seed(fixed=False) if seed is None else seed
        click.echo(f"seed {seed}", err=True)
        with tempfile.TemporaryDirectory(prefix="langlauf-") as folder:
            found = run_all(
                only,
                lambda name: _plan(name, seed, scale, Path(folder)),
                seed=seed,
                scale=scale,
                scenarios=scenarios,
            )
        if json_to:
            json_to.write_text(as_json(found) + "\n", "utf-8")
        if markdown:
            click.echo(as_markdown(found))
        else:
            print_table(found)
        sys.exit(0 if found.kept else 1)

    return main


def _plan(name: str, seed: int, scale: float, folder: Path) -> Plan:
    """Report the progress of a scenario: a moving line on a terminal, one line at the end in a log."""
    live = sys.stderr.isatty()

    def watch(done: int, total: int) -> None:
        ended = done >= total
        if live or ended:
            click.echo(("\r" if live else "") + f"{name}: {done:,} of {total:,}", err=True, nl=ended or not live)

    return Plan(seed, scale, folder / name, watch=watch)
