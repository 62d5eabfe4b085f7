"""`langlauf openapi`: prints the description of an application's API."""

import json

import click

from langlauf.api.openapi.document import build_document
from langlauf.cli.serve import BUNDLED, load_app


@click.command()
@click.argument("target", metavar="[MODULE:APP]", default=BUNDLED)
def openapi(target: str) -> None:
    """Print the OpenAPI 3.1 document of an application. Without MODULE:APP, of the bundled analyses."""
    app = load_app(target)
    click.echo(json.dumps(build_document(app.registry, app.api_prefix), indent=2, ensure_ascii=False))
