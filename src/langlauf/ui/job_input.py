"""The input of a job for people: its subject, a masked excerpt, a curl command, and a prefilled form."""

import re
import shlex
from collections.abc import Iterable

import msgspec

from langlauf.analysis.registry import Analysis
from langlauf.api.context import ApiContext
from langlauf.auth.caller import DEFAULT_ORG, Caller
from langlauf.domain.job import JobRecord
from langlauf.domain.read_models import KeptParts
from langlauf.domain.redact import redact, redact_json
from langlauf.domain.state import Status
from langlauf.server.asgi import root_url
from langlauf.service.read import Reads, kept_parts
from langlauf.ui.form_fields import FormField, field_texts
from langlauf.ui.formats import JsonExcerpt, json_excerpt
from langlauf.ui.language import error_meta
from langlauf.ui.page_request import PageRequest
from langlauf.ui.views.raw_json import NULL, is_hidden, is_text, members, parse_raw, raw_text
from langlauf.ui.views.table import truncate

_MAX_SUBJECT = 80
#: In bytes. A larger input is not read for a subject.
_MAX_SUBJECT_INPUT = 16_384


def job_subject(job: JobRecord, asked: str | None, analysis: Analysis | None) -> str:
    """Return the label of a job, else the first required short text of its input, or an empty string."""
    if job.label is not None:
        return job.label
    if asked is None or analysis is None:
        return ""
    given = members(parse_raw(asked))
    for field in msgspec.structs.fields(analysis.input_type):
        value = given.get(field.encode_name, NULL)
        text = raw_text(value).strip() if field.required and is_text(value) else ""
        if text and "\n" not in text and not is_hidden(field.encode_name, value) and redact(text) == text:
            return truncate(text, _MAX_SUBJECT)
    return ""


async def job_subjects(context: ApiContext, caller: Caller, jobs: Iterable[JobRecord]) -> dict[str, str]:
    """Return the subjects of jobs by id, with at most one query: a job with a label needs none."""
    known = {job.job_id: job for job in jobs}
    unnamed = [job.job_id for job in known.values() if job.label is None]
    reads = context.services.reads.of(caller)
    inputs = await reads.inputs(unnamed, largest=_MAX_SUBJECT_INPUT) if unnamed else {}
    registry = context.services.registry
    return {job_id: job_subject(job, inputs.get(job_id), registry.get(job.analysis)) for job_id, job in known.items()}


def curl_command(context: ApiContext, request: PageRequest, caller: Caller, body: str) -> str:
    """Return a curl command that submits this JSON."""
    headers = ["Content-Type: application/json", "Prefer: respond-async"]
    if caller.org_id != DEFAULT_ORG:
        headers.append(f"X-Org-Id: {caller.org_id}")
    lines = [f"curl -i -X POST {shlex.quote(_api_url(context, request))}"]
    if not context.services.authenticator.open:
        # In double quotes: the shell inserts the key, so that the page does not contain it.
        lines.append('-H "Authorization: Bearer $LANGLAUF_KEY"')
    lines += [f"-H {shlex.quote(header)}" for header in headers]
    return " \\\n  ".join([*lines, f"-d {shlex.quote(body)}"])


def _api_url(context: ApiContext, request: PageRequest) -> str:
    """Return the address of the API for a shell."""
    return absolute_url(context, request, context.prefix)


def absolute_url(context: ApiContext, request: PageRequest, path: str) -> str:
    """Return an address for programs: below the public URL, or below the one that the browser used."""
    base = root_url(request.http.scope, context.settings.public_url) + path
    if context.settings.public_url is not None:
        return base
    url = request.http.url
    return f"{url.scheme}://{url.netloc}{base}"


#: In characters. A longer input gets no command.
_MAX_COMMAND_INPUT = 4_096


class JobInput(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a job. `command` is None where it would be too long."""

    subject: str
    body: JsonExcerpt
    command: str | None


def job_input(context: ApiContext, request: PageRequest, caller: Caller, job: JobRecord, payload: str) -> JobInput:
    """Return the input of a job, with secrets masked."""
    text = msgspec.json.encode(redact_json(msgspec.json.decode(payload))).decode()
    body = f'{{"analysis":{msgspec.json.encode(job.analysis).decode()},"input":{text}}}'
    return JobInput(
        subject=job_subject(job, payload, context.services.registry.get(job.analysis)),
        body=json_excerpt(text, request.language),
        command=curl_command(context, request, caller, body) if len(text) <= _MAX_COMMAND_INPUT else None,
    )


#: The member of `error_meta` that names the parameter at fault.
_FIELD = "field"


def faulty_field(job: JobRecord, analysis: Analysis | None) -> str | None:
    """Return the parameter at fault: the one that the error's meta names, or the only one that its message mentions."""
    if job.status is not Status.FAILED or analysis is None:
        return None
    names = {field.encode_name for field in msgspec.structs.fields(analysis.input_type)}
    mentioned = names & {error_meta(job).get(_FIELD)} or names & set(re.findall(r"\w+", job.error_message or ""))
    return next(iter(mentioned)) if len(mentioned) == 1 else None


class PrefillSource(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier job and its input, to fill a form from."""

    job: JobRecord
    input: dict[str, object]
    #: finished parts that a resumed job would not compute again
    kept_parts: KeptParts | None


async def find_earlier_job(reads: Reads, caller: Caller, job_id: str) -> PrefillSource | None:
    """Return a job of the caller's org with its input, or None."""
    records = reads.of(caller)
    view = await records.job(job_id)
    payload = None if view is None else await records.payload(job_id)
    if view is None or payload is None:
        return None
    return PrefillSource(
        job=view.job,
        input=msgspec.json.decode(payload, type=dict[str, object]),
        kept_parts=await kept_parts(records, view.job),
    )


def prefilled_fields(fields: list[FormField], earlier: PrefillSource) -> tuple[dict[str, str], list[str]]:
    """Return the text of every field, and the fields left empty because they look like secrets."""
    texts: dict[str, str] = {}
    hidden: list[str] = []
    for field in fields:
        value = earlier.input.get(field.name)
        if redact_json({field.name: value}) != {field.name: value}:
            hidden.append(field.html_name)
            value = None
        texts |= field_texts(field, value)
    return texts, hidden
