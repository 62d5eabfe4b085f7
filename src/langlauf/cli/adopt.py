"""`langlauf adopt`: extends the table of an earlier system, so that its failures are handled where it is."""

import asyncio

import click

from langlauf.cli.options import Stopped
from langlauf.cli.printing import note, print_json
from langlauf.cli.stores import place_for, settings_for
from langlauf.domain.errors import LanglaufError
from langlauf.store.tools.location import PostgresPlace


@click.command("adopt")
@click.argument("table", type=click.Choice(["reading_jobs"]))
@click.option("--store", metavar="URL", help="The database; else as the environment says. [LANGLAUF_STORE]")
@click.option("--schema", default="public", metavar="NAME", help="The schema the table is in. Default: public.")
@click.option("--dry-run", is_flag=True, help="Print the SQL, and change nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def adopt(table: str, store: str | None, schema: str, dry_run: bool, as_json: bool) -> None:  # noqa: ARG001 - one choice
    """Give TABLE of an earlier system on PostgreSQL the columns, indexes and function that handle its failures."""
    place = place_for(settings_for(store))
    if not isinstance(place, PostgresPlace):
        raise Stopped("adopt works on a PostgreSQL database: name it with --store or LANGLAUF_STORE")
    from langlauf.compat.adopt import adopt_reading_jobs  # its library comes with an extra

    try:
        done = asyncio.run(adopt_reading_jobs(place.url, schema=schema, dry_run=dry_run))
    except LanglaufError as error:
        raise Stopped(str(error)) from None
    changes = [step.what for step in done.steps]
    if as_json:
        sql = [step.sql for step in done.steps]
        print_json({"table": done.table, "dry_run": dry_run, "changes": changes, "sql": sql, "views": done.views})
    elif dry_run:
        click.echo(done.script(), nl=False)
        note(f"{done.table}: {len(changes)} changes to make" if changes else f"{done.table}: nothing to do")
    else:
        click.echo(f"{done.table}: " + (f"adopted; {', '.join(changes)}" if changes else "nothing to do"))
    for view in done.views:
        note(f"The view {view} was made before the columns and does not show them: make it anew to see them.")
