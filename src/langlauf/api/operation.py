"""What an operation of the API is: one method of one path, with all that is told about it."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from langlauf.domain.access import Scope

Codes = Mapping[int, tuple[str, ...]]
#: What any request can get, whatever it asks for.
ANYWHERE: Codes = {500: ("internal",)}
#: What any request for an org can get.
READING: Codes = {
    400: ("bad_request",),
    401: ("unauthorized",),
    403: ("forbidden",),
    429: ("rate_limited",),
    503: ("unavailable",),
}
#: What any request for one thing can get.
ONE: Codes = {**READING, 404: ("not_found",)}
#: What any request with a body can get.
BODY: Codes = {408: ("request_timeout",), 413: ("payload_too_large",), 415: ("unsupported_media_type",)}
TENANT = ("X-Org-Id", "X-Tenant-Id", "X-Request-Id")


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path. `{prefix}` stands for the API's prefix."""

    name: str
    method: str
    path: str
    summary: str
    tag: str
    #: what a caller must be allowed to do; None where everybody may call
    scope: Scope | None = None
    answer: type[msgspec.Struct] | None = None
    successes: tuple[int, ...] = (200,)
    #: whether a token for one job is good for it, if it is that job's
    one_job: bool = False
    #: whose id it has in its path, where whoever has the id may be allowed to read
    by_id: Literal["job", "result"] | None = None
    #: whether it answers also while the store is away
    store_may_be_away: bool = False
    #: whether 202 is the answer to a submission
    accepts: bool = False
    #: answers without a body, with what they mean
    empty: Mapping[int, str] = {}
    #: the headers of each answer beyond those that all have; one with a question mark is not always there
    headers: Codes = {}
    #: what one event of `text/event-stream` is, where the operation also streams
    stream: type[msgspec.Struct] | None = None
    body: str | None = None
    parameters: tuple[str, ...] = ()
    #: codes by status, beyond those that any request can get
    problems: Codes = {}
    #: statuses whose problems may also have a code of the analysis' own
    job_problems: tuple[int, ...] = ()

    def path_under(self, prefix: str) -> str:
        """The path with the API's own prefix."""
        return self.path.replace("{prefix}", prefix)

    def all_problems(self) -> dict[int, tuple[str, ...]]:
        """Every code that the operation can answer with, by status."""
        found: dict[int, tuple[str, ...]] = {}
        for codes in (ANYWHERE, READING if self.scope is not None else {}, self.problems):
            for status, names in codes.items():
                found[status] = tuple(dict.fromkeys((*found.get(status, ()), *names)))
        return dict(sorted(found.items()))
