"""What a person filled in becomes an order, checked as a request to the API is, and answered with what came of it."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from langlauf.analysis.schema import InvalidInput
from langlauf.api.submit_request import read_order
from langlauf.auth.caller import Caller
from langlauf.clock import new_word
from langlauf.domain.errors import Overloaded, StoreUnavailable
from langlauf.domain.job import Accepted, Duplicate, JobRecord, QueueFull, Replayed
from langlauf.domain.keys import ALPHABET
from langlauf.problems import Problem
from langlauf.service.submit import Submissions
from langlauf.settings import Settings
from langlauf.ui.forms.entry import Choice, Entry, Kind
from langlauf.ui.forms.flaws import Flaw, flaw_of, mail_flaw, target_flaw
from langlauf.ui.forms.reading import Filled, read_form_values
from langlauf.ui.forms.writing import TICKED
from langlauf.ui.start.offers import Offer

#: What can be said about a job beyond its input, as entries of the same form.
TIMEOUT = Entry(name="timeout_seconds", room="option", kind=Kind.TEXT, examples=("90", "30m"))
PRIORITY = Entry(
    name="priority_class",
    room="option",
    kind=Kind.CHOICE,
    initial='"default"',
    choices=(Choice('"default"', ""), Choice('"expedite"', "")),
)
RETRIES = Entry(name="max_retries", room="option", kind=Kind.WHOLE, limits={"min": "0", "max": "100", "step": "1"})
DUPLICATE = Entry(name="allow_duplicate", room="option", kind=Kind.FLAG)
OPTIONS = (TIMEOUT, PRIORITY, RETRIES, DUPLICATE)
#: Whom to tell of the end.
EMAIL = Entry(name="email", room="option", kind=Kind.TEXT, examples=("name@example.org",))
WEBHOOK = Entry(name="webhook", room="option", kind=Kind.TEXT, examples=("https://example.org/hooks",))
NOTIFY = (EMAIL, WEBHOOK)
_KEY = re.compile(r"[0-9A-Za-z]{24}", re.ASCII)


class Ordered(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a form: a job, or why there is none."""

    job: JobRecord | None = None
    #: the same job that has not ended yet
    duplicate: JobRecord | None = None
    #: flaws by field; under the empty name what belongs to none
    flaws: dict[str, Flaw] = {}
    #: the code of a refusal that is nobody's mistake, and when to come back
    refused: str = ""
    status: int = 200
    headers: dict[str, str] = {}


def new_form_key() -> str:
    """What makes the forms of two visits two wishes."""
    return new_word(ALPHABET, 24)


def form_key(fields: Mapping[str, str]) -> str:
    """The key of the form that was sent; a new one where it has none that is ours."""
    given = fields.get("key", "")
    return given if _KEY.fullmatch(given) else new_form_key()


def notify_entries(settings: Settings) -> tuple[Entry, ...]:
    """Those ways to be told that can work here: mail needs a server for it, a webhook something to sign with."""
    ways = ((EMAIL, settings.smtp is not None), (WEBHOOK, bool(settings.webhook_secret)))
    return tuple(entry for entry, works in ways if works)


def read_input(offer: Offer, fields: Mapping[str, str], deepest: int) -> Filled:
    """The input that was filled in."""
    return read_form_values(offer.entries, offer.analysis.input_type, fields, deepest)


def body_of(offer: Offer, values: Mapping[str, Any], fields: Mapping[str, str]) -> dict[str, Any]:
    """The form as the body that a program would send."""
    given = {option.name: fields.get(option.field, "").strip() for option in OPTIONS}
    timeout, retries = given["timeout_seconds"], given["max_retries"]
    mode: dict[str, Any] = {
        "priority_class": given["priority_class"].strip('"') or "default",
        "allow_duplicate": given["allow_duplicate"] == TICKED,
    }
    if retries:
        mode["max_retries"] = int(retries) if re.fullmatch(r"-?[0-9]{1,9}", retries) else retries
    told = {entry.name: text for entry in NOTIFY if (text := fields.get(entry.field, "").strip())}
    if told:
        mode["notify"] = told
    body = {"analysis": offer.name, "input": dict(values), "options": {"async_mode": mode}}
    return {**body, "timeout_seconds": timeout} if timeout else body


def idempotency_key(key: str, body: Mapping[str, Any]) -> str:
    """The same form sent twice is one wish; with other values it is another."""
    digest = hashlib.sha256(msgspec.json.encode(body, order="deterministic")).hexdigest()
    return f"form-{key}-{digest[:32]}"


async def place(submissions: Submissions, caller: Caller, body: dict[str, Any], key: str, language: str) -> Ordered:
    """Submits it; whatever the API would refuse is refused here for the same reason. Mails speak as the page does."""
    try:
        order, _ = read_order(body, idempotency_key(key, body))
        if order.notify is not None:
            order = replace(order, notify=replace(order.notify, language=language))
        submitted = await submissions.submit(caller, order)
    except InvalidInput as error:
        return _wrong(error.field, error.message)
    except Problem as problem:
        return _wrong(problem.members.get("field", ""), problem.message)
    except (Overloaded, StoreUnavailable):
        return Ordered(refused="unavailable", status=503, headers={"Retry-After": "5"})
    return came_of(submitted)


def came_of(submitted: object) -> Ordered:
    """The answer of the store, for people."""
    if isinstance(submitted, Accepted | Replayed):
        return Ordered(job=submitted.job)
    if isinstance(submitted, Duplicate):
        return Ordered(duplicate=submitted.job, status=409)
    if isinstance(submitted, QueueFull):
        status = 503 if submitted.scope == "all" else 429
        return Ordered(refused="queue_full", status=status, headers={"Retry-After": str(submitted.retry_after)})
    return Ordered(refused="idempotency_mismatch", status=422)


def _wrong(field: str, message: str) -> Ordered:
    """A flaw beside the entry that a request would name; at the top where there is none."""
    first, last = re.split(r"[.\[]", field)[0], field.rpartition(".")[2]
    options = [one.field for one in (*OPTIONS, *NOTIFY) if one.name == last and first in ("options", TIMEOUT.name)]
    flaw = target_flaw(message) if options == [WEBHOOK.field] else flaw_of(message)
    if options == [EMAIL.field]:
        flaw = mail_flaw(message)
    return Ordered(flaws={(options or [f"in.{first}" if first else ""])[0]: flaw}, status=400)
