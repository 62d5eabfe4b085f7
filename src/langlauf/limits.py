"""Limits that hardly any deployment changes: one setting, `LANGLAUF_LIMITS`, sets any of them by name."""

import difflib
from collections.abc import Callable
from typing import Any, NamedTuple

from langlauf.domain.access import Rate, read_rate
from langlauf.domain.attempt import LEAST_EVENTS, MOST_EVENTS, MOST_PARTIAL_BYTES
from langlauf.settings_values import parse_duration, read_percent, read_positive_duration, whole_number

MEBIBYTE = 1_048_576


class Limit(NamedTuple):
    """A value that hardly any deployment changes; `LANGLAUF_LIMITS` sets it by name."""

    name: str
    default: Any
    read: Callable[[str], Any]
    unit: str
    help: str


LIMITS: tuple[Limit, ...] = (
    Limit("max_url", 8_192, whole_number(256), "bytes", "The longest request URL."),
    Limit("max_headers", 16_384, whole_number(1_024), "bytes", "The largest total size of request headers."),
    Limit("max_header_fields", 100, whole_number(8), "fields", "The most request headers."),
    Limit("max_depth", 64, whole_number(1), "levels", "The deepest nesting of a request body."),
    Limit("head_seconds", 10.0, read_positive_duration, "duration", "Timeout for receiving request headers."),
    Limit("body_seconds", 30.0, read_positive_duration, "duration", "Timeout for receiving a request body."),
    Limit("write_seconds", 30.0, read_positive_duration, "duration", "Timeout for a client that does not read its response."),
    Limit("max_submitting", 1_000, whole_number(1), "requests", "Submissions that one process writes at once."),
    Limit("max_streams_org", 1_000, whole_number(1), "requests", "Open event streams, long polls and synchronous requests of one org, per server."),
    Limit("max_streams", 10_000, whole_number(1), "requests", "Open event streams, long polls and synchronous requests, per server."),
    Limit("max_sending_org", 128 * MEBIBYTE, whole_number(1), "bytes", "Memory for large responses to one org, per server."),
    Limit("max_sending", 256 * MEBIBYTE, whole_number(1), "bytes", "Memory for large responses, per server."),
    Limit("stream_heartbeat", 15.0, read_positive_duration, "duration", "An idle event stream sends a comment this often."),
    Limit("stream_lifetime", 900.0, read_positive_duration, "duration", "The longest event stream; the client reconnects and resumes."),
    Limit("stream_patience", 30.0, read_positive_duration, "duration", "An event stream is closed if its client does not read for this long."),
    Limit("credential_share", 50, read_percent, "percent", "The share of an org's streams and rates that one session, the tokens of one key, or all callers with only an id may use."),
    Limit("rate_limit_wrong_keys", Rate(60, 60), read_rate, "rate", "Wrong keys accepted from one address; loopback is exempt."),
    Limit("max_job_events", MOST_EVENTS, whole_number(LEAST_EVENTS), "events", "Events of one job; beyond it progress and partials are not stored, the end always is."),
    Limit("max_job_partials", MOST_PARTIAL_BYTES, whole_number(0), "bytes", "Stored partials of one job; beyond it no further ones are stored."),
    Limit("inline_result", MEBIBYTE, whole_number(0), "bytes", "Results and partials up to this size stay in the store although LANGLAUF_BLOBS is set."),
    Limit("blob_seconds", 30.0, read_positive_duration, "duration", "Timeout for reading or writing one blob."),
    Limit("blob_garbage_age", 86_400.0, parse_duration, "duration", "An unreferenced blob is removed when it is this old."),
    Limit("retention_every", 3_600.0, read_positive_duration, "duration", "The interval of the clean-up."),
    Limit("mail_rate_org", Rate(1_000, 3_600), read_rate, "rate", "Mails of one org; more are suppressed."),
    Limit("mail_rate_address", Rate(60, 3_600), read_rate, "rate", "Mails of one org to one address; more are suppressed."),
)  # fmt: skip
BY_NAME = {limit.name: limit for limit in LIMITS}


def read_limits(text: str) -> dict[str, Any]:
    """Return the limits in a text such as `head_seconds=5s; max_url=4096`."""
    found: dict[str, Any] = {}
    for word in filter(None, (part.strip() for part in text.split(";"))):
        name, sign, value = (part.strip() for part in word.partition("="))
        if not sign or name not in BY_NAME:
            nearest = difflib.get_close_matches(name, BY_NAME, n=1, cutoff=0.5)
            hint = f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(BY_NAME)}"
            raise ValueError(f"{name!r} is not a limit; {hint}")
        try:
            found[name] = BY_NAME[name].read(value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return found
