"""Cursors: where the next page of a list starts. They hold a position and no right: the org comes from the caller."""

import base64
import binascii
import hashlib
import re

from langlauf.domain.delivery import DeliveryFilter
from langlauf.domain.instant import Instant
from langlauf.domain.views import JobFilter
from langlauf.problems import bad_request

_POSITION = re.compile(r"^([0-9a-f]{8}):([0-9]{1,18}):(\S+)$")


def write_cursor(after: tuple[Instant, str], org_id: str, which: JobFilter | DeliveryFilter) -> str:
    """The position where a page ended, for that list and no other."""
    return write_position(after, _mark(org_id, which))


def read_cursor(text: str, org_id: str, which: JobFilter | DeliveryFilter) -> tuple[Instant, str]:
    """The position in a cursor; one of a list with other filters would pass over what the caller has not seen."""
    return read_position(text, _mark(org_id, which))


def write_position(after: tuple[Instant, str], mark: str) -> str:
    """A position in the list that has this mark."""
    instant, record_id = after
    position = f"{mark}:{instant}:{record_id}"
    return base64.urlsafe_b64encode(position.encode()).decode().rstrip("=")


def read_position(text: str, mark: str) -> tuple[Instant, str]:
    """The position in a cursor that was written for a list with this mark."""
    try:
        position = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        position = ""
    match = _POSITION.match(position)
    if match is None:
        raise bad_request("cursor is not one that a list gave out.", "cursor")
    if match[1] != mark:
        raise bad_request("cursor belongs to a list with other filters; start again without it.", "cursor")
    return int(match[2]), match[3]


def _mark(org_id: str, which: JobFilter | DeliveryFilter) -> str:
    if isinstance(which, DeliveryFilter):
        of = (which.endpoint_id or "", which.job_id or "", which.status or "")
        return hashlib.sha256("\0".join(("deliveries", org_id, *of)).encode()).hexdigest()[:8]
    asked = [org_id, which.status or "", which.analysis or "", which.text or ""]
    if which.error_code:
        asked.append(which.error_code)
    return list_mark(*asked)


def list_mark(*asked: str) -> str:
    """What tells one list from another: whose it is, and what is asked of it."""
    filters = "\0".join(asked)
    return hashlib.sha256(filters.encode()).hexdigest()[:8]
