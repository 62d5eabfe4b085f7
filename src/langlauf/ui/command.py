"""A command that asks the API for something, ready to be pasted into a shell."""

import shlex

from langlauf.api.context import Context
from langlauf.auth.caller import DEFAULT_ORG, Caller
from langlauf.ui.visit import Visit


def submission(context: Context, visit: Visit, caller: Caller, body: str) -> str:
    """A command that submits this JSON."""
    headers = ["Content-Type: application/json", "Prefer: respond-async"]
    if caller.org_id != DEFAULT_ORG:
        headers.append(f"X-Org-Id: {caller.org_id}")
    lines = [f"curl -i -X POST {shlex.quote(_address(context, visit))}"]
    if not context.services.access.open:
        # In double quotes: the shell puts the key in, so that it is on no page.
        lines.append('-H "Authorization: Bearer $LANGLAUF_KEY"')
    lines += [f"-H {shlex.quote(header)}" for header in headers]
    return " \\\n  ".join([*lines, f"-d {shlex.quote(body)}"])


def _address(context: Context, visit: Visit) -> str:
    """Where a shell reaches the API: the public address, or the one the browser used."""
    base = context.links(visit.request).base
    if context.settings.public_url is not None:
        return base
    url = visit.request.url
    return f"{url.scheme}://{url.netloc}{base}"
