"""An analysis as people see it: what its author says, the entries of its form, and how a program asks for it."""

from typing import Any

import msgspec

from langlauf.analysis.registry import Analysis, Registry
from langlauf.api.context import Context
from langlauf.api.openapi.schema import required_example
from langlauf.auth.caller import Caller
from langlauf.ui.command import submission
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
    return submission(context, visit, caller, msgspec.json.encode(offer.example).decode())
