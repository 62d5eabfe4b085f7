"""Who asks: the org, and what is known about the request."""

import msgspec


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """The org a request is for, and the ids it is remembered by."""

    org_id: str
    request_id: str
    trace_id: str
    user_id: str | None = None
    api_key_id: str | None = None
