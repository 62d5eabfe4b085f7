"""An operation of the API: one method of one path, with everything that the OpenAPI document says about it."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from langlauf.domain.access import Scope

Codes = Mapping[int, tuple[str, ...]]
#: Problems of any request.
ANYWHERE: Codes = {500: ("internal",)}
#: Problems of any request for an org.
READING: Codes = {
    400: ("bad_request",),
    401: ("unauthorized",),
    403: ("forbidden",),
    429: ("rate_limited",),
    503: ("unavailable",),
}
#: Problems of any request for one record.
ONE: Codes = {**READING, 404: ("not_found",)}
#: Problems of any request with a body.
BODY: Codes = {408: ("request_timeout",), 413: ("payload_too_large",), 415: ("unsupported_media_type",)}
#: The response of any path to an unsupported method; no operation lists it, because none can get it.
METHOD_NOT_ALLOWED: Codes = {405: ("method_not_allowed",)}
#: The name that PROV-JSON goes by; its specification registers none.
PROV_JSON = "application/prov+json"
TENANT = ("X-Org-Id", "X-Tenant-Id", "X-Request-Id")


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path. `{prefix}` stands for the API's prefix."""

    name: str
    method: str
    path: str
    summary: str
    tag: str
    #: the scope that a caller needs; None without authentication
    scope: Scope | None = None
    answer: type[msgspec.Struct] | None = None
    successes: tuple[int, ...] = (200,)
    #: whether a token for one job is enough, for that job
    one_job: bool = False
    #: the kind of id in its path, where the settings may make the id enough to read
    by_id: Literal["job", "result"] | None = None
    #: whether it also works while the store is unavailable
    store_may_be_away: bool = False
    #: whether 202 is the response to a submission
    accepts: bool = False
    #: responses without a body, with their meaning
    empty: Mapping[int, str] = {}
    #: headers of each response beyond the common ones; one with a question mark is optional
    headers: Codes = {}
    #: the schema of one event of `text/event-stream`, where the operation also streams
    stream: type[msgspec.Struct] | None = None
    #: further media types of its response, each a JSON object of its own kind
    also: tuple[str, ...] = ()
    body: str | None = None
    parameters: tuple[str, ...] = ()
    #: codes by status, beyond those of any request
    problems: Codes = {}
    #: statuses whose problems may also have a code of the analysis
    job_problems: tuple[int, ...] = ()

    def path_under(self, prefix: str) -> str:
        """Return the path under the API's prefix."""
        return self.path.replace("{prefix}", prefix)

    def all_problems(self) -> dict[int, tuple[str, ...]]:
        """Return every code of the operation, by status."""
        found: dict[int, tuple[str, ...]] = {}
        for codes in (ANYWHERE, READING if self.scope is not None else {}, self.problems):
            for status, names in codes.items():
                found[status] = tuple(dict.fromkeys((*found.get(status, ()), *names)))
        return dict(sorted(found.items()))
