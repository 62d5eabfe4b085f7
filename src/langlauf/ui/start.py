"""The first page: what this is, what it can run, how to ask for it, and what the org asked for lately."""

import shlex
from typing import Any

import msgspec
from starlette.responses import Response

from langlauf.analysis.registry import Analysis
from langlauf.domain.job import Job
from langlauf.domain.views import JobFilter
from langlauf.http.context import Context
from langlauf.http.document.samples import required_example
from langlauf.service.tenant import DEFAULT_ORG, Caller
from langlauf.ui.fields import Field, fields_of
from langlauf.ui.formatting import face
from langlauf.ui.rendering import Rendering
from langlauf.ui.visit import Visit

RECENT = 20
_REF = "#/components/schemas/{name}"


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """An analysis as people see it."""

    name: str
    is_default: bool
    #: the first paragraph of what its author says about it, and the others
    headline: str
    paragraphs: list[str]
    fields: list[Field]
    #: a body that a request for it could have
    example: dict[str, Any]


class Line(msgspec.Struct, frozen=True):
    """A row of the list of jobs."""

    job: Job
    face: str


class StartPage:
    """`/`."""

    def __init__(self, context: Context, rendering: Rendering) -> None:
        self._context = context
        self._rendering = rendering
        registry = context.services.registry
        self._offers = [offer_of(analysis, is_default=analysis.name == registry.default) for analysis in registry]

    async def show(self, visit: Visit, caller: Caller) -> Response:
        """The page, with the latest jobs of the caller's org."""
        reads = self._context.services.reads
        page = await reads.of(caller).jobs(JobFilter(limit=RECENT))
        lines = [Line(view.job, face(view.job.status, reads.phase(view))) for view in page.views]
        return self._rendering.page(
            visit,
            "start.html",
            offers=self._offers,
            curl=self._curl(visit, caller),
            lines=lines,
            more=page.after is not None,
            recent=RECENT,
            jobs_url=f"{self._context.links(visit.request).base}/jobs",
        )

    def _curl(self, visit: Visit, caller: Caller) -> str | None:
        """A command that starts the default analysis, ready to be pasted into a shell."""
        offer = next((one for one in self._offers if one.is_default), None)
        if offer is None:
            return None
        headers = ["Content-Type: application/json", "Prefer: respond-async"]
        if caller.org_id != DEFAULT_ORG:
            headers.append(f"X-Org-Id: {caller.org_id}")
        lines = [f"curl -i -X POST {shlex.quote(self._address(visit))}"]
        if not self._context.services.access.open:
            # In double quotes: the shell puts the key in, so that it is on no page.
            lines.append('-H "Authorization: Bearer $LANGLAUF_KEY"')
        lines += [f"-H {shlex.quote(header)}" for header in headers]
        body = msgspec.json.encode(offer.example).decode()
        return " \\\n  ".join([*lines, f"-d {shlex.quote(body)}"])

    def _address(self, visit: Visit) -> str:
        """Where a shell reaches the API: the public address, or the one the browser used."""
        base = self._context.links(visit.request).base
        if self._context.settings.public_url is not None:
            return base
        url = visit.request.url
        return f"{url.scheme}://{url.netloc}{base}"


def offer_of(analysis: Analysis, *, is_default: bool) -> Offer:
    """What the registry knows about an analysis, readable."""
    [_], components = msgspec.json.schema_components([analysis.input_type], ref_template=_REF)
    schema = components[analysis.input_type.__name__]
    headline, *paragraphs = analysis.description.split("\n\n")
    example = required_example(schema, components)
    return Offer(
        name=analysis.name,
        is_default=is_default,
        headline=headline,
        paragraphs=paragraphs,
        fields=fields_of(schema),
        example=example if is_default else {"analysis": analysis.name, **example},
    )
