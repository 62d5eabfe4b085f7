"""An analysis as people see it: what its author says, the entries of its form, and how a program asks for it."""

import shlex
from typing import Any

import msgspec

from langlauf.analysis.registry import Analysis, Registry
from langlauf.http.context import Context
from langlauf.http.document.samples import required_example
from langlauf.service.tenant import DEFAULT_ORG, Caller
from langlauf.ui.fields import Field, fields_of
from langlauf.ui.forms.entry import Entry
from langlauf.ui.forms.schema import entries_of
from langlauf.ui.visit import Visit

_REF = "#/components/schemas/{name}"


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """An analysis as people see it."""

    analysis: Analysis
    is_default: bool
    #: the first paragraph of what its author says about it, and the others
    headline: str
    paragraphs: list[str]
    fields: list[Field]
    entries: list[Entry]
    #: a body that a request for it could have
    example: dict[str, Any]

    @property
    def name(self) -> str:
        """What requests call it."""
        return self.analysis.name


def offers_of(registry: Registry) -> list[Offer]:
    """Every analysis, the default first."""
    offers = [offer_of(analysis, is_default=analysis.name == registry.default) for analysis in registry]
    return sorted(offers, key=lambda offer: not offer.is_default)


def offer_of(analysis: Analysis, *, is_default: bool) -> Offer:
    """What the registry knows about an analysis, readable."""
    [_], components = msgspec.json.schema_components([analysis.input_type], ref_template=_REF)
    schema = components[analysis.input_type.__name__]
    headline, *paragraphs = analysis.description.split("\n\n")
    example = required_example(schema, components)
    return Offer(
        analysis=analysis,
        is_default=is_default,
        headline=headline,
        paragraphs=paragraphs,
        fields=fields_of(schema),
        entries=entries_of(schema, components),
        example=example if is_default else {"analysis": analysis.name, **example},
    )


def curl(context: Context, visit: Visit, caller: Caller, offer: Offer) -> str:
    """A command that starts the analysis, ready to be pasted into a shell."""
    headers = ["Content-Type: application/json", "Prefer: respond-async"]
    if caller.org_id != DEFAULT_ORG:
        headers.append(f"X-Org-Id: {caller.org_id}")
    lines = [f"curl -i -X POST {shlex.quote(_address(context, visit))}"]
    if not context.services.access.open:
        # In double quotes: the shell puts the key in, so that it is on no page.
        lines.append('-H "Authorization: Bearer $LANGLAUF_KEY"')
    lines += [f"-H {shlex.quote(header)}" for header in headers]
    body = msgspec.json.encode(offer.example).decode()
    return " \\\n  ".join([*lines, f"-d {shlex.quote(body)}"])


def _address(context: Context, visit: Visit) -> str:
    """Where a shell reaches the API: the public address, or the one the browser used."""
    base = context.links(visit.request).base
    if context.settings.public_url is not None:
        return base
    url = visit.request.url
    return f"{url.scheme}://{url.netloc}{base}"
