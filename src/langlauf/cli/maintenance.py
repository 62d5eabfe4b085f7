"""`langlauf migrate`, `verify`, `sweep`, `blobs` and `adopt`: maintenance of a store, also beside a running server."""

import asyncio
import json
import sys
from typing import Any

import click
import msgspec

from langlauf.background import DutyRecorder
from langlauf.cli.options import (
    CommandError,
    ExitCode,
    errors_end_command,
    json_option,
    plain,
    print_json,
    print_note,
    progress_bar,
    store_option,
)
from langlauf.cli.stores import payloads_for, place_for, run_on_store, settings_for
from langlauf.compat.v1_import import import_v1
from langlauf.domain.errors import LanglaufError
from langlauf.domain.health import SWEEP_DUTY
from langlauf.domain.read_models import SweptJob
from langlauf.maintenance.duties import sweep_once
from langlauf.store.protocol import Store
from langlauf.store.sqlite.connection import applied_migrations, migrate, open_connection, unseen_log
from langlauf.store.tools.drivers import check_store
from langlauf.store.tools.location import PostgresLocation, SqliteLocation, StoreLocation
from langlauf.store.tools.verify import RULES, Violation
from langlauf.telemetry.log import set_up_logging


@click.command("sweep")
@store_option
@json_option
def sweep(store: str | None, as_json: bool) -> None:  # noqa: ARG001 - its output is always JSON
    """Recover jobs of lost workers, once. Also of those that did not stop in time. Prints JSON."""
    settings = settings_for(store)
    set_up_logging(settings.log_format, settings.log_level)

    async def run_sweep(opened: Store) -> list[SweptJob]:
        swept = await sweep_once(opened, settings)
        await DutyRecorder(opened.duties.record_success).record(SWEEP_DUTY)
        return swept

    swept = run_on_store(settings, run_sweep)
    answer = {"updated_count": len(swept), "updated_jobs": [one.job_id for one in swept]}
    click.echo(json.dumps(answer))


@click.command("migrate")
@store_option
@json_option
@click.option(
    "--print-roles", is_flag=True, help="Print the SQL that creates the roles on PostgreSQL, and change nothing."
)
@click.option("--login", metavar="NAME", help="With --print-roles, also grant access to a login that owns nothing.")
def migrate_store(store: str | None, as_json: bool, print_roles: bool, login: str | None) -> None:
    """Bring the schema of the store up to date. Every start of a server does so too."""
    place = place_for(settings_for(store))
    if print_roles or login is not None:
        click.echo(_roles(place, login, print_roles=print_roles), nl=False)
        return
    with errors_end_command():
        schema, done = _migrate_postgres(place) if isinstance(place, PostgresLocation) else _migrate_sqlite(place)
    if as_json:
        click.echo(json.dumps({"store": place.shown, "schema": schema, "applied": done}))
    else:
        click.echo(f"{place.shown}: schema {schema}, " + (f"applied {', '.join(done)}" if done else "nothing to do"))


def _roles(place: StoreLocation, login: str | None, *, print_roles: bool) -> str:
    """Return the SQL for an administrator, without a connection to the database."""
    if not print_roles:
        raise CommandError("--login needs --print-roles, which prints the SQL that grants access to it")
    if not isinstance(place, PostgresLocation):
        raise CommandError("only a store on PostgreSQL has roles: name it with --store postgresql://user@host/database")
    from langlauf.store.postgres.connection import login_name
    from langlauf.store.postgres.migrate import roles_sql

    return roles_sql(login_name(place.url), login)


def _migrate_sqlite(place: SqliteLocation) -> tuple[int, list[str]]:
    if place.earlier is not None:
        import_v1(place.path, place.earlier)
    connection = open_connection(place.path)
    done = migrate(connection)
    schema = applied_migrations(connection)
    connection.close()
    return schema, done


def _migrate_postgres(place: PostgresLocation) -> tuple[int, list[str]]:
    from langlauf.store.postgres.migrate import migrate_database

    return asyncio.run(migrate_database(place.url))


@click.command()
@store_option
@json_option
def verify(store: str | None, as_json: bool) -> None:
    """Check that a store follows all its rules.

    Safe beside a running server. Exit 0: it does, 1: it does not, 2: could not be checked.
    """
    try:
        settings = settings_for(store)
        place = place_for(settings)
        with progress_bar("checking") as watch, payloads_for(settings) as payloads:
            found = list(check_store(place, watch=watch, payloads=payloads))
    except (LanglaufError, CommandError) as error:
        raise CommandError(str(error), code=ExitCode.USAGE) from None
    violations = [one for one in found if not one.warning]
    unseen = unseen_log(place.path) if isinstance(place, SqliteLocation) else None
    if as_json:
        click.echo(msgspec.json.encode(_verify_fields(place.shown, found, unseen)))
    else:
        _print_violations(place.shown, found, len(violations))
        if unseen is not None:
            print_note(unseen)
    sys.exit(1 if violations else 0)


def _verify_fields(store: str, found: list[Violation], unseen: str | None) -> dict[str, Any]:
    return {
        "ok": not any(not one.warning for one in found),
        "store": store,
        "rules": len(RULES),
        "violations": [one for one in found if not one.warning],
        "warnings": [one for one in found if one.warning],
        "unseen": unseen,
    }


def _print_violations(store: str, found: list[Violation], violations: int) -> None:
    for one in found:
        where = f" [{one.org_id}/{one.job_id or '-'}]" if one.org_id else ""
        click.echo(f"{'warning' if one.warning else 'broken'}: {one.rule}{where}: {plain(one.evidence)}")
    for rule in dict.fromkeys(one.rule for one in found):
        click.echo(f"  {rule}: {RULES[rule].sentence}", err=True)
    click.echo(f"{store}: {len(RULES)} rules, {violations} broken, {len(found) - violations} warnings", err=True)


@click.group("blobs")
def blobs() -> None:
    """Large results outside of the database (LANGLAUF_BLOBS)."""


@blobs.command("take-over")
@store_option
def take_over(store: str | None) -> None:
    """Make the store the owner of its blobs.

    Only if the previous owner is gone or not used any more: two stores that use the same blobs would delete what the
    other still needs.
    """
    previous, now = run_on_store(settings_for(store), lambda opened: opened.blobs.take_over())
    click.echo(f"the blobs belong to the store {now}")
    if previous is not None and previous != now:
        click.echo(f"they belonged to the store {previous}", err=True)


@click.command("adopt")
@click.argument("table", type=click.Choice(["reading_jobs"]))
@store_option
@click.option("--schema", default="public", metavar="NAME", help="The schema of the table. Default: public.")
@click.option("--dry-run", is_flag=True, help="Print the SQL, and change nothing.")
@json_option
def adopt(table: str, store: str | None, schema: str, dry_run: bool, as_json: bool) -> None:  # noqa: ARG001 - one choice
    """Extend TABLE of an earlier system on PostgreSQL. Adds the columns, indexes and function that handle failures."""
    place = place_for(settings_for(store))
    if not isinstance(place, PostgresLocation):
        raise CommandError("adopt works on a PostgreSQL database: name it with --store or LANGLAUF_STORE")
    from langlauf.compat.adopt import adopt_reading_jobs  # its library comes with an extra

    with errors_end_command():
        done = asyncio.run(adopt_reading_jobs(place.url, schema=schema, dry_run=dry_run))
    changes = [step.what for step in done.steps]
    if as_json:
        sql = [step.sql for step in done.steps]
        print_json({"table": done.table, "dry_run": dry_run, "changes": changes, "sql": sql, "views": done.views})
    elif dry_run:
        click.echo(done.script(), nl=False)
        print_note(f"{done.table}: {len(changes)} changes to make" if changes else f"{done.table}: nothing to do")
    else:
        click.echo(f"{done.table}: " + (f"adopted; {', '.join(changes)}" if changes else "nothing to do"))
    for view in done.views:
        print_note(f"The view {view} was created before the columns and lacks them: create it again to see them.")
