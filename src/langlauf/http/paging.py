"""Cursors: where the next page of a list starts. They hold a position and no right: the org comes from the caller."""

import base64
import binascii
import hashlib
import re

from langlauf.domain.delivery import DeliveryFilter
from langlauf.domain.instant import Instant
from langlauf.domain.views import JobFilter
from langlauf.http.problems import bad_request

_POSITION = re.compile(r"^([0-9a-f]{8}):([0-9]{1,18}):(\S+)$")


def write_cursor(after: tuple[Instant, str], org_id: str, which: JobFilter | DeliveryFilter) -> str:
    """The position where a page ended, for that list and no other."""
    queued_at, job_id = after
    position = f"{_mark(org_id, which)}:{queued_at}:{job_id}"
    return base64.urlsafe_b64encode(position.encode()).decode().rstrip("=")


def read_cursor(text: str, org_id: str, which: JobFilter | DeliveryFilter) -> tuple[Instant, str]:
    """The position in a cursor; one of a list with other filters would pass over what the caller has not seen."""
    try:
        position = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        position = ""
    match = _POSITION.match(position)
    if match is None:
        raise bad_request("cursor is not one that a list gave out.", "cursor")
    if match[1] != _mark(org_id, which):
        raise bad_request("cursor belongs to a list with other filters; start again without it.", "cursor")
    return int(match[2]), match[3]


def _mark(org_id: str, which: JobFilter | DeliveryFilter) -> str:
    if isinstance(which, DeliveryFilter):
        of = (which.endpoint_id or "", which.job_id or "", which.status or "")
        return hashlib.sha256("\0".join(("deliveries", org_id, *of)).encode()).hexdigest()[:8]
    asked = [org_id, which.status or "", which.analysis or "", which.text or ""]
    if which.error_code:
        asked.append(which.error_code)
    filters = "\0".join(asked)
    return hashlib.sha256(filters.encode()).hexdigest()[:8]
