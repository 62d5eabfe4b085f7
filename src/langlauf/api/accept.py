"""Which of our two forms of a job's log a caller wants, by its Accept header (RFC 9110, 12.5.1)."""

import re

from starlette.requests import Request

EVENT_STREAM = "text/event-stream"
_QUALITY = re.compile(r"^(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)$")


def wants_stream(request: Request) -> bool:
    """Whether a caller likes an event stream better than JSON, which is what callers get who like both alike."""
    accept = ",".join(request.headers.getlist("accept"))
    return quality(accept, EVENT_STREAM) > quality(accept, "application/json")


def quality(accept: str, media_type: str) -> float:
    """How much a header likes a media type: 0, not at all, to 1. The range that names it most closely counts."""
    kind = media_type.partition("/")[0]
    closeness = {media_type: 3, f"{kind}/*": 2, "*/*": 1}
    best = (0, 0.0)
    for part in accept.split(","):
        name, *parameters = (word.strip().lower() for word in part.split(";"))
        rank = closeness.get(name, 0)
        if rank > best[0]:
            best = (rank, _weight(parameters))
    return best[1]


def _weight(parameters: list[str]) -> float:
    """The `q` of a range, 1 where there is none; one that cannot be read makes the range count for nothing."""
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            return float(value) if _QUALITY.match(value.strip()) else 0.0
    return 1.0
