"""How an attempt can end. The decision is made here; the store writes it."""

import asyncio
import errno
import re
from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from langlauf.domain.errors import (
    ERROR_TYPE,
    OWN_FACTS,
    AnalysisError,
    LanglaufError,
    ResultTooLarge,
    ResultUnstorable,
    RetryHint,
    StoreUnavailable,
    TransientError,
    sentence_meta,
    sentence_text,
)
from langlauf.domain.instant import Instant, to_text
from langlauf.domain.job import INLINE_REF, CanceledBy, PayloadText
from langlauf.domain.redact import clean_details, clean_message, clean_text, exception_text, without_paths

#: A job is failed after its worker vanished this often: it may be the cause.
MOST_LOST_LEASES = 10
#: A job is failed sooner if its own process died this often: nothing else can have killed it.
MOST_CRASHES = 3
#: Seconds after the cancel grace in which the worker may still record the end, before the sweep does.
CANCEL_MARGIN = 1.0
#: Members of an exception group that are examined, that the message names, and characters for all their texts.
_MOST_MEMBERS = 1_000
_MOST_NAMED = 20
_LONGEST_MEMBERS = 1_800
_LONGEST_CODE = 200


class Completed(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The function returned; this is its final snapshot, as JSON text."""

    result_id: str
    #: None if it is stored as a blob
    payload: str | None
    #: a large one, instead of the text
    payload_data: memoryview | None = None
    summary: str | None = None
    payload_ref: str = INLINE_REF
    #: views for people, as JSON text
    views: str | None = None

    @property
    def content(self) -> PayloadText | None:
        """Return the payload in the form it came."""
        return self.payload if self.payload_data is None else self.payload_data


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """The job ends with an error."""

    code: str
    message: str
    retryable: bool
    hint: RetryHint | None = None
    meta: Mapping[str, Any] = {}
    timed_out: bool = False
    #: the job's own process died too often
    crashed: bool = False


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """The attempt ends, the job continues after a delay."""

    code: str
    message: str
    delay_seconds: float
    meta: Mapping[str, Any] = {}
    timed_out: bool = False


class Canceled(msgspec.Struct, frozen=True, kw_only=True):
    """The job ends because it was canceled."""

    by: CanceledBy
    reason: str


class Released(msgspec.Struct, frozen=True):
    """The worker shuts down and gives the job back; it does not count as a failure."""


class Crashed(msgspec.Struct, frozen=True):
    """The process that ran the function died; whether the job continues depends on how often that happened."""

    #: how it died, as the end of a sentence
    how: str
    #: whether the job can have caused it; otherwise it counts like a vanished worker
    own: bool = True
    #: how many processes died: more than one if a cluster retried by itself
    deaths: int = 1


class Lost(msgspec.Struct, frozen=True):
    """The worker vanished, or the job's own process died; the job continues at once."""

    #: how the process died, if only the process did
    crash: str | None = None
    #: how many processes died
    deaths: int = 1


Outcome = Completed | Failed | Retry | Canceled | Released | Lost


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A failure of an attempt, before it is decided whether to retry."""

    code: str
    message: str
    transient: bool
    hint: RetryHint | None = None
    meta: Mapping[str, Any] = {}


def classify(error: BaseException, transient_types: tuple[type[BaseException], ...] = ()) -> Failure:
    """Return the failure for an exception that an analysis raised."""
    if isinstance(error, BaseExceptionGroup):
        return _classify_group(error, transient_types)
    if isinstance(error, AnalysisError):
        # A subclass may not have called the constructor: then the defaults of its class count.
        return Failure(
            code=_code(getattr(error, "code", error.default_code)),
            message=clean_message(_words_of(error)),
            transient=isinstance(error, TransientError),
            hint=_hint(getattr(error, "hint", None)) or error.default_hint,
            meta=_meta_of(error),
        )
    words = _words_of(error)
    if not isinstance(error, ResultUnstorable | ResultTooLarge):
        # The text was not written for the caller: it may reveal paths of the machine.
        words = without_paths(words)
    code, transient, hint = _kind_of(error)
    if isinstance(error, transient_types):
        transient, hint = True, "retry_with_backoff"
    message = clean_message(words)
    return Failure(code=code, message=message, transient=transient, hint=hint, meta=_facts_of(error, message))


def _meta_of(error: AnalysisError) -> dict[str, Any]:
    """Return the meta that an analysis gave, with the facts of Langlauf, which it cannot set."""
    given = clean_details(getattr(error, "meta", {}))
    named = given if isinstance(given, dict) else {}
    own: dict[str, Any] = clean_details(error.own_facts)
    return {**{name: value for name, value in named.items() if name not in OWN_FACTS}, **own}


def _facts_of(error: BaseException, message: str) -> dict[str, Any]:
    """Return what Langlauf knows of an exception without meta: its own sentence, or the type of any other."""
    if not isinstance(error, LanglaufError):
        return {ERROR_TYPE: clean_text(type(error).__name__, _LONGEST_CODE)}
    if not error.own_facts and isinstance(error, ResultUnstorable | ResultTooLarge):
        return sentence_meta("unstorable", detail=message)
    return dict(clean_details(error.own_facts))


def _classify_group(group: BaseExceptionGroup[Any], transient_types: tuple[type[BaseException], ...]) -> Failure:
    """Classify a group: transient only if all members are, else by the first that is not. Name all members."""
    members = _members(group)
    lasting = next((one for one in members if not _passes(one, transient_types)), members[0])
    failure = classify(lasting, transient_types)
    if len(members) == 1:
        return failure
    named = members[:_MOST_NAMED]
    texts = [clean_text(classify(one).message, _LONGEST_MEMBERS // len(named)) for one in named]
    if len(members) > len(named):
        texts.append(f"and {len(members) - len(named)} more")
    said = {"count": len(members), "detail": "; ".join(texts)}
    meta = {**failure.meta, **sentence_meta("several_errors", **said)}
    return msgspec.structs.replace(failure, message=sentence_text("several_errors", **said), meta=meta)


def _passes(error: BaseException, transient_types: tuple[type[BaseException], ...]) -> bool:
    """Whether a retry makes sense."""
    if isinstance(error, AnalysisError):
        return isinstance(error, TransientError)
    return isinstance(error, transient_types) or _kind_of(error)[1]


def _members(group: BaseExceptionGroup[Any]) -> list[BaseException]:
    """Return the exceptions in a group and its nested groups, in order, up to a limit."""
    found: list[BaseException] = []
    waiting: list[BaseException] = [group]
    while waiting and len(found) < _MOST_MEMBERS:
        one = waiting.pop()
        if isinstance(one, BaseExceptionGroup):
            waiting += reversed(one.exceptions)  # never empty, and created before their group: this terminates
        else:
            found.append(one)
    return found


def _code(code: object) -> str:
    """Return a code in lower snake case, whatever an analysis gives."""
    text = code if isinstance(code, str) else exception_text(ValueError(code), named=False)
    return re.sub(r"[^a-z0-9]+", "_", text[:_LONGEST_CODE].lower()).strip("_")[:64] or "internal"


def _hint(hint: object) -> RetryHint | None:
    return next((known for known in get_args(RetryHint) if known == hint), None)


def _words_of(error: BaseException) -> str:
    """Return the text of an exception, with its type if it is not Langlauf's own."""
    return exception_text(error, named=not isinstance(error, LanglaufError))


#: Other exceptions: code, whether transient, and hint. The first match counts.
_KINDS: tuple[tuple[type[BaseException], str, bool, RetryHint | None], ...] = (
    (TimeoutError, "timeout", True, "retry_with_backoff"),
    (ConnectionError, "network_error", True, "retry_with_backoff"),
    (asyncio.IncompleteReadError, "network_error", True, "retry_with_backoff"),
    (StoreUnavailable, "internal", True, "retry_with_backoff"),
    (ResultUnstorable, "result_unstorable", False, None),
    (ResultTooLarge, "result_too_large", False, None),
    (ValueError, "validation_error", False, "check_input_and_retry"),
    (BaseException, "internal", False, None),
)


#: Network errors that are plain OSErrors, and class names of HTTP and DNS libraries.
_NETWORK_ERRNOS = frozenset({errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.ETIMEDOUT})
_NETWORK_NAMES = frozenset(
    {"gaierror", "URLError", "TransportError", "ClientConnectionError", "RequestsConnectionError"}
)


def _is_network(error: BaseException) -> bool:
    names = {kind.__name__ for kind in type(error).__mro__}
    by_number = isinstance(error, OSError) and error.errno in _NETWORK_ERRNOS
    # A response with an error status is none, although urllib derives it from its network error.
    return by_number or (bool(names & _NETWORK_NAMES) and type(error).__name__ != "HTTPError")


def _kind_of(error: BaseException) -> tuple[str, bool, RetryHint | None]:
    if _is_network(error):
        return "network_error", True, "retry_with_backoff"
    return next((code, transient, hint) for kind, code, transient, hint in _KINDS if isinstance(error, kind))


def after_failure(failure: Failure, retry_count: int, max_retries: int, delay_seconds: float) -> Retry | Failed:
    """Retry a transient failure while retries are left; everything else ends the job."""
    if failure.transient and retry_count < max_retries:
        return Retry(code=failure.code, message=failure.message, meta=failure.meta, delay_seconds=delay_seconds)
    return Failed(
        code=failure.code, message=failure.message, retryable=failure.transient, hint=failure.hint, meta=failure.meta
    )


def after_timeout(
    *,
    limit_seconds: float,
    started_at: Instant,
    detected_at: Instant,
    retry_count: int,
    max_retries: int,
    delay_seconds: float,
) -> Retry | Failed:
    """Retry an attempt that exceeded its timeout while retries are left."""
    meta = {
        "threshold_seconds": limit_seconds,
        "started_at": to_text(started_at),
        "detected_at": to_text(detected_at),
        **sentence_meta("timed_out", seconds=limit_seconds),
    }
    message = sentence_text("timed_out", seconds=limit_seconds)
    if retry_count < max_retries:
        return Retry(code="timeout", message=message, meta=meta, delay_seconds=delay_seconds, timed_out=True)
    code = "timeout_max_retries" if max_retries else "timeout"
    return Failed(code=code, message=message, retryable=True, hint="retry_with_backoff", meta=meta, timed_out=True)


def after_loss(*, cancel_requested: bool, cancel_reason: str | None, lost_before: int) -> Lost | Failed | Canceled:
    """Continue a job whose worker vanished, unless it was to be canceled or it happened too often."""
    if cancel_requested:
        return Canceled(by="system", reason=cancel_reason or "canceled while its worker was gone")
    if lost_before + 1 >= MOST_LOST_LEASES:
        return Failed(
            code="worker_lost",
            message=sentence_text("worker_vanished", times=MOST_LOST_LEASES),
            retryable=True,
            hint="retry_with_backoff",
            meta=sentence_meta("worker_vanished", times=MOST_LOST_LEASES),
        )
    return Lost()


def after_crash(
    crashed: Crashed, *, cancel_requested: bool, cancel_reason: str | None, crashed_before: int, lost_before: int
) -> Lost | Failed | Canceled:
    """Continue a job whose process died, unless it was to be canceled or it happened too often."""
    if not crashed.own:
        return after_loss(cancel_requested=cancel_requested, cancel_reason=cancel_reason, lost_before=lost_before)
    if cancel_requested:
        return Canceled(by="worker", reason=cancel_reason or "canceled when its process died")
    deaths = crashed_before + crashed.deaths
    if deaths < MOST_CRASHES:
        return Lost(crash=crashed.how, deaths=crashed.deaths)
    return Failed(
        code="worker_lost",
        message=sentence_text("process_died", deaths=deaths, how=crashed.how),
        retryable=True,
        hint="retry_with_backoff",
        meta={"crash": crashed.how, **sentence_meta("process_died", deaths=deaths, how=crashed.how)},
        crashed=True,
    )
