"""`langlauf sweep` and `langlauf migrate`: work on the store, also beside a running server."""

import asyncio
import json

import click

from langlauf.bootstrap import open_store
from langlauf.cli.options import Stopped
from langlauf.cli.stores import place_for, settings_for
from langlauf.compat.sqlite_import import import_v1
from langlauf.domain.duties import SWEEP
from langlauf.domain.errors import LanglaufError
from langlauf.domain.views import Swept
from langlauf.hints import Hints
from langlauf.maintenance.duties import DutyNotes
from langlauf.maintenance.sweep import sweep_once
from langlauf.settings import Settings
from langlauf.store.sqlite.connection import applied_migrations, migrate, open_connection
from langlauf.store.tools.location import Place, PostgresPlace, SqlitePlace
from langlauf.telemetry.log import set_up_logging


@click.command("sweep")
@click.option("--store", metavar="URL", help="The store; else as the environment says. [LANGLAUF_STORE]")
@click.option("--json", "as_json", is_flag=True, help="The same: the answer is JSON either way.")
def sweep(store: str | None, as_json: bool) -> None:  # noqa: ARG001 - the flag is there for uniformity
    """Take jobs back from workers that vanished or did not stop them in time, once."""
    settings = settings_for(store)
    set_up_logging(settings.log_format, settings.log_level)
    place_for(settings)
    try:
        swept = asyncio.run(_sweep(settings))
    except LanglaufError as error:
        raise Stopped(str(error)) from error
    answer = {"updated_count": len(swept), "updated_jobs": [one.job_id for one in swept]}
    click.echo(json.dumps(answer))


async def _sweep(settings: Settings) -> list[Swept]:
    opened = await open_store(settings, Hints())
    try:
        swept = await sweep_once(opened, settings)
        await DutyNotes(opened.duties).note(SWEEP)
        return swept
    finally:
        await opened.close()


@click.command("migrate")
@click.option("--store", metavar="URL", help="The store; else as the environment says. [LANGLAUF_STORE]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--print-roles", is_flag=True, help="Print the SQL that makes the roles on PostgreSQL, and do nothing.")
@click.option("--login", metavar="NAME", help="With --print-roles, also lets in a login that owns nothing.")
def migrate_store(store: str | None, as_json: bool, print_roles: bool, login: str | None) -> None:
    """Bring the schema of the store up to date; it is done at every start as well."""
    place = place_for(settings_for(store))
    if print_roles or login is not None:
        click.echo(_roles(place, login, print_roles=print_roles), nl=False)
        return
    try:
        schema, done = _migrate_database(place) if isinstance(place, PostgresPlace) else _migrate_file(place)
    except LanglaufError as error:
        raise Stopped(str(error)) from error
    if as_json:
        click.echo(json.dumps({"store": place.shown, "schema": schema, "applied": done}))
    else:
        click.echo(f"{place.shown}: schema {schema}, " + (f"applied {', '.join(done)}" if done else "nothing to do"))


def _roles(place: Place, login: str | None, *, print_roles: bool) -> str:
    """The SQL for an administrator; nothing is asked of the database."""
    if not print_roles:
        raise Stopped("--login is for --print-roles: a login is let in by what that prints")
    if not isinstance(place, PostgresPlace):
        raise Stopped("only a store on PostgreSQL has roles: name it with --store postgresql://user@host/database")
    from langlauf.store.postgres.address import login_of
    from langlauf.store.postgres.roles import roles_sql

    return roles_sql(login_of(place.url), login)


def _migrate_file(place: SqlitePlace) -> tuple[int, list[str]]:
    if place.earlier is not None:
        import_v1(place.path, place.earlier)
    connection = open_connection(place.path)
    done = migrate(connection)
    schema = applied_migrations(connection)
    connection.close()
    return schema, done


def _migrate_database(place: PostgresPlace) -> tuple[int, list[str]]:
    from langlauf.store.postgres.opening import migrate_database

    return asyncio.run(migrate_database(place.url))
