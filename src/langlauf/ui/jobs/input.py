"""What a job was asked, fit to be shown: without secrets, at a glance, and as a command that asks it again."""

import shlex
from typing import Any

import msgspec

from langlauf.domain.job import Job
from langlauf.domain.masking import masked
from langlauf.domain.redact import MASK
from langlauf.http.context import Context
from langlauf.service.tenant import DEFAULT_ORG, Caller
from langlauf.ui.formatting import Excerpt, excerpt
from langlauf.ui.visit import Visit

_LONGEST_GIST = 60
#: A longer input makes no command that anybody would paste.
_LONGEST_COMMAND = 4_096


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a job. `gist` is its first short value, `command` None where it would be too long."""

    gist: str
    body: Excerpt
    command: str | None


def asked_of(context: Context, visit: Visit, caller: Caller, job: Job, payload: str) -> Asked:
    """The input as its reader may see it."""
    values = masked(msgspec.json.decode(payload))
    text = msgspec.json.encode(values).decode()
    command = _command(context, visit, caller, job, text) if len(text) <= _LONGEST_COMMAND else None
    return Asked(gist=_gist(_as_declared(context, job, values)), body=excerpt(text), command=command)


def _as_declared(context: Context, job: Job, values: Any) -> Any:
    """The input in the order in which its analysis declares it; stored it is sorted by name."""
    analysis = context.services.registry.get(job.analysis)
    if analysis is None or not isinstance(values, dict):
        return values
    return {name: values[name] for name in analysis.input_type.__struct_fields__ if name in values}


def _gist(values: Any) -> str:
    """The first text of the input: most inputs begin with what they are about."""
    texts = values.values() if isinstance(values, dict) else ()
    plain = (text.strip() for text in texts if isinstance(text, str) and MASK not in text)
    first = next(filter(None, plain), "")
    line = first.splitlines()[0] if first else ""
    return line if len(line) <= _LONGEST_GIST else line[: _LONGEST_GIST - 1] + "…"


def _command(context: Context, visit: Visit, caller: Caller, job: Job, text: str) -> str:
    """A command that asks the same again, ready to be pasted into a shell."""
    headers = ["Content-Type: application/json", "Prefer: respond-async"]
    if caller.org_id != DEFAULT_ORG:
        headers.append(f"X-Org-Id: {caller.org_id}")
    lines = [f"curl -i -X POST {shlex.quote(_address(context, visit))}"]
    if not context.services.access.open:
        # In double quotes: the shell puts the key in, so that it is on no page.
        lines.append('-H "Authorization: Bearer $LANGLAUF_KEY"')
    lines += [f"-H {shlex.quote(header)}" for header in headers]
    body = f'{{"analysis":{msgspec.json.encode(job.analysis).decode()},"input":{text}}}'
    return " \\\n  ".join([*lines, f"-d {shlex.quote(body)}"])


def _address(context: Context, visit: Visit) -> str:
    """Where a shell reaches the API: the public address, or the one the browser used."""
    base = context.links(visit.request).base
    if context.settings.public_url is not None:
        return base
    url = visit.request.url
    return f"{url.scheme}://{url.netloc}{base}"
