"""Who asks: the org, and what is known about the request."""

import re

import msgspec

DEFAULT_ORG = "default-org"
_NAME = re.compile(r"^[A-Za-z0-9_.:-]{1,128}$", re.ASCII)


def usable_name(text: str) -> bool:
    """Whether a text can name an org, a user or a request."""
    return _NAME.fullmatch(text) is not None


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """The org a request is for, and the ids it is remembered by."""

    org_id: str
    request_id: str
    trace_id: str
    user_id: str | None = None
    api_key_id: str | None = None
