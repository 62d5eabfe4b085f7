"""`langlauf verify`: checks every invariant of a store."""

import sys
from typing import Any

import click
import msgspec

from langlauf.cli.options import Stopped
from langlauf.cli.printing import note, plain
from langlauf.cli.progress import progress
from langlauf.cli.stores import payloads_for, place_for, settings_for
from langlauf.domain.errors import LanglaufError
from langlauf.store.sqlite.connection import unseen_log
from langlauf.store.tools.drivers import check_store
from langlauf.store.tools.location import SqlitePlace
from langlauf.store.tools.verify import RULES, Violation


class CannotCheck(Stopped):
    """Nothing can be said about the store."""

    exit_code = 2


@click.command()
@click.option("--store", default=None, metavar="URL", help="The store, as a URL or a path. [LANGLAUF_STORE]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def verify(store: str | None, as_json: bool) -> None:
    """Check every invariant of a store, also beside a running server. Exit 0: sound, 1: not, 2: cannot be checked."""
    try:
        settings = settings_for(store)
        place = place_for(settings)
        with progress("checking") as watch, payloads_for(settings) as payloads:
            found = list(check_store(place, watch=watch, payloads=payloads))
    except (LanglaufError, Stopped) as error:
        raise CannotCheck(str(error)) from None
    violations = [one for one in found if not one.warning]
    unseen = unseen_log(place.path) if isinstance(place, SqlitePlace) else None
    if as_json:
        click.echo(msgspec.json.encode(_report(place.shown, found, unseen)))
    else:
        _print(place.shown, found, len(violations))
        if unseen is not None:
            note(unseen)
    sys.exit(1 if violations else 0)


def _report(store: str, found: list[Violation], unseen: str | None) -> dict[str, Any]:
    return {
        "ok": not any(not one.warning for one in found),
        "store": store,
        "rules": len(RULES),
        "violations": [one for one in found if not one.warning],
        "warnings": [one for one in found if one.warning],
        "unseen": unseen,
    }


def _print(store: str, found: list[Violation], violations: int) -> None:
    for one in found:
        where = f" [{one.org_id}/{one.job_id or '-'}]" if one.org_id else ""
        click.echo(f"{'warning' if one.warning else 'broken'}: {one.rule}{where}: {plain(one.evidence)}")
    for rule in dict.fromkeys(one.rule for one in found):
        click.echo(f"  {rule}: {RULES[rule].sentence}", err=True)
    click.echo(f"{store}: {len(RULES)} rules, {violations} broken, {len(found) - violations} warnings", err=True)
