"""`langlauf blobs`: whose the results outside of a store are."""

import asyncio

import click

from langlauf.bootstrap import open_store
from langlauf.cli.options import Stopped
from langlauf.cli.stores import place_for, settings_for
from langlauf.domain.errors import LanglaufError
from langlauf.hints import Hints
from langlauf.settings import Settings


@click.group("blobs")
def blobs() -> None:
    """Large results outside of the store (LANGLAUF_BLOBS)."""


@blobs.command("take-over")
@click.option("--store", default=None, metavar="URL", help="The store, as a URL or a path. [LANGLAUF_STORE]")
def take_over(store: str | None) -> None:
    """Make the store the owner of its blobs, where the store that they belonged to is gone or will not be used again.

    Two stores that use the same blobs would remove what the other still needs.
    """
    settings = settings_for(store)
    place_for(settings)
    try:
        before, now = asyncio.run(_take_over(settings))
    except LanglaufError as error:
        raise Stopped(str(error)) from None
    click.echo(f"the blobs belong to the store {now}")
    if before is not None and before != now:
        click.echo(f"they belonged to the store {before}", err=True)


async def _take_over(settings: Settings) -> tuple[str | None, str]:
    store = await open_store(settings, Hints())
    try:
        return await store.blobs.take_over()
    finally:
        await store.close()
