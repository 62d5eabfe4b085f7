"""W3C trace context: the trace of a request, which its job continues."""

import re
from collections.abc import Sequence

import msgspec

#: Version, trace id, parent span id, flags. A later version may have more fields.
_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_NO_VERSION = "ff"
_OURS = "00"
#: Sampled, and random trace id. Unknown flags are not passed on.
_KNOWN_FLAGS = 0b11
_LONGEST_STATE = 512
_MOST_MEMBERS = 32
_MEMBER = re.compile(r"[a-z0-9][a-z0-9_*/@-]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]")


class Trace(msgspec.Struct, frozen=True):
    """The trace context of a caller, in the form in which it is passed on."""

    trace_id: str
    traceparent: str
    #: opaque data of tracing systems
    tracestate: str | None = None


def read_trace(parents: Sequence[str], states: Sequence[str] = ()) -> Trace | None:
    """Return the trace context in the headers, or None if there is none or it is malformed."""
    match = _PARENT.fullmatch(parents[0].strip()) if len(parents) == 1 else None
    if match is None:
        return None
    version, trace_id, span_id, flags, more = match.groups()
    if version == _NO_VERSION or (version == _OURS and more) or not (trace_id.strip("0") and span_id.strip("0")):
        return None
    parent = f"{_OURS}-{trace_id}-{span_id}-{int(flags, 16) & _KNOWN_FLAGS:02x}"
    return Trace(trace_id, parent, _state(",".join(states)))


def _state(text: str) -> str | None:
    """Return the list without the oldest members that do not fit, which are last; None if any is malformed."""
    members = [member.strip() for member in text.split(",") if member.strip()]
    names = {member.partition("=")[0] for member in members}
    if len(members) > _MOST_MEMBERS or len(names) < len(members) or not all(map(_MEMBER.fullmatch, members)):
        return None
    while len(",".join(members)) > _LONGEST_STATE:
        members.pop()
    return ",".join(members) or None
