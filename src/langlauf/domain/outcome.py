"""How an attempt can end. Deciding is a function here; writing the decision is the store's business."""

import asyncio
import errno
import re
from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from langlauf.domain.errors import (
    AnalysisError,
    LanglaufError,
    ResultTooLarge,
    ResultUnstorable,
    RetryHint,
    StoreUnavailable,
    TransientError,
)
from langlauf.domain.instant import Instant, to_text
from langlauf.domain.job import INLINE_REF, CanceledBy
from langlauf.domain.redact import clean_details, clean_message, clean_text, exception_text, without_paths

#: A job whose worker vanished this often is given up: it may be what kills them.
MOST_LOST_LEASES = 10
#: A job whose own process died this often is given up sooner: nobody else can have killed it.
MOST_CRASHES = 3
#: Seconds after the grace of a cancel in which the worker may still write the end itself, before the sweep does.
CANCEL_MARGIN = 1.0
#: Members of an exception group that are looked at, that its message names, and characters for all those names.
_MOST_MEMBERS = 1_000
_MOST_NAMED = 20
_LONGEST_MEMBERS = 1_800
_LONGEST_CODE = 200


class Completed(msgspec.Struct, frozen=True, kw_only=True):
    """The function returned; this is its final snapshot, as JSON text."""

    result_id: str
    #: None where it is kept as a blob
    payload: str | None
    summary: str | None = None
    payload_ref: str = INLINE_REF
    #: what people are to see of it, as JSON text
    views: str | None = None


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """The job ends with an error."""

    code: str
    message: str
    retryable: bool
    hint: RetryHint | None = None
    meta: Mapping[str, Any] = {}
    timed_out: bool = False
    #: the job's own process died once too often
    crashed: bool = False


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """The attempt ends, the job goes on after a delay."""

    code: str
    message: str
    delay_seconds: float
    meta: Mapping[str, Any] = {}
    timed_out: bool = False


class Canceled(msgspec.Struct, frozen=True, kw_only=True):
    """The job ends because somebody wished it."""

    by: CanceledBy
    reason: str


class Released(msgspec.Struct, frozen=True):
    """The worker shuts down and gives the job back; nothing is counted against it."""


class Crashed(msgspec.Struct, frozen=True):
    """The process that ran the function died; whether the job goes on depends on how often that happened."""

    #: how it died, as the end of a sentence
    how: str
    #: whether it can have been the job's own doing; else it counts like a worker that vanished
    own: bool = True
    #: how many processes it cost: more than one where a cluster tried again by itself
    deaths: int = 1


class Lost(msgspec.Struct, frozen=True):
    """The worker vanished, or the job's own process died; the job goes on at once."""

    #: how the process died, where it was the process alone
    crash: str | None = None
    #: how many processes that cost
    deaths: int = 1


Outcome = Completed | Failed | Retry | Canceled | Released | Lost


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong in an attempt, before it is decided whether it is tried again."""

    code: str
    message: str
    transient: bool
    hint: RetryHint | None = None
    meta: Mapping[str, Any] = {}


def classify(error: BaseException, transient_types: tuple[type[BaseException], ...] = ()) -> Failure:
    """Names the failure behind an exception that an analysis raised."""
    if isinstance(error, BaseExceptionGroup):
        return _classify_group(error, transient_types)
    if isinstance(error, AnalysisError):
        # A subclass may have forgotten to call the constructor: then what its class says counts.
        return Failure(
            code=_code(getattr(error, "code", error.default_code)),
            message=clean_message(_words_of(error)),
            transient=isinstance(error, TransientError),
            hint=_hint(getattr(error, "hint", None)) or error.default_hint,
            meta=clean_details(getattr(error, "meta", {})),
        )
    words = _words_of(error)
    if not isinstance(error, ResultUnstorable | ResultTooLarge):
        # The words were not chosen for the one who asked: they may tell where things lie on the machine.
        words = without_paths(words)
    code, transient, hint = _kind_of(error)
    if isinstance(error, transient_types):
        transient, hint = True, "retry_with_backoff"
    return Failure(code=code, message=clean_message(words), transient=transient, hint=hint)


def _classify_group(group: BaseExceptionGroup[Any], transient_types: tuple[type[BaseException], ...]) -> Failure:
    """A group passes only if all of it does; the first that does not gives the code. The message names all members."""
    members = _members(group)
    lasting = next((one for one in members if not _passes(one, transient_types)), members[0])
    failure = classify(lasting, transient_types)
    if len(members) == 1:
        return failure
    named = members[:_MOST_NAMED]
    texts = [clean_text(classify(one).message, _LONGEST_MEMBERS // len(named)) for one in named]
    if len(members) > len(named):
        texts.append(f"and {len(members) - len(named)} more")
    return msgspec.structs.replace(failure, message=f"{len(members)} errors: {'; '.join(texts)}")


def _passes(error: BaseException, transient_types: tuple[type[BaseException], ...]) -> bool:
    """Whether another attempt is worth it."""
    if isinstance(error, AnalysisError):
        return isinstance(error, TransientError)
    return isinstance(error, transient_types) or _kind_of(error)[1]


def _members(group: BaseExceptionGroup[Any]) -> list[BaseException]:
    """The exceptions in a group and in the groups inside it, in their order, up to a number."""
    found: list[BaseException] = []
    waiting: list[BaseException] = [group]
    while waiting and len(found) < _MOST_MEMBERS:
        one = waiting.pop()
        if isinstance(one, BaseExceptionGroup):
            waiting += reversed(one.exceptions)  # never empty, and made before their group: this comes to an end
        else:
            found.append(one)
    return found


def _code(code: object) -> str:
    """Lower snake case, whatever an analysis says."""
    text = code if isinstance(code, str) else exception_text(ValueError(code), named=False)
    return re.sub(r"[^a-z0-9]+", "_", text[:_LONGEST_CODE].lower()).strip("_")[:64] or "internal"


def _hint(hint: object) -> RetryHint | None:
    return next((known for known in get_args(RetryHint) if known == hint), None)


def _words_of(error: BaseException) -> str:
    """What an exception says; one of Python's own also says what it is."""
    return exception_text(error, named=not isinstance(error, LanglaufError))


#: What an exception of other origin means: its code, whether it may pass, and what to do. The first that fits counts.
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


#: What the network says through plain errors of the system, and what HTTP and DNS libraries call it.
_NETWORK_ERRNOS = frozenset({errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.ETIMEDOUT})
_NETWORK_NAMES = frozenset(
    {"gaierror", "URLError", "TransportError", "ClientConnectionError", "RequestsConnectionError"}
)


def _is_network(error: BaseException) -> bool:
    names = {kind.__name__ for kind in type(error).__mro__}
    by_number = isinstance(error, OSError) and error.errno in _NETWORK_ERRNOS
    # An answer with a bad status is none of it, although urllib derives it from its network error.
    return by_number or (bool(names & _NETWORK_NAMES) and type(error).__name__ != "HTTPError")


def _kind_of(error: BaseException) -> tuple[str, bool, RetryHint | None]:
    if _is_network(error):
        return "network_error", True, "retry_with_backoff"
    return next((code, transient, hint) for kind, code, transient, hint in _KINDS if isinstance(error, kind))


def after_failure(failure: Failure, retry_count: int, max_retries: int, delay_seconds: float) -> Retry | Failed:
    """A transient failure is retried while retries are left; everything else ends the job."""
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
    """An attempt that ran out of time is retried while retries are left."""
    meta = {
        "threshold_seconds": limit_seconds,
        "started_at": to_text(started_at),
        "detected_at": to_text(detected_at),
    }
    message = f"The attempt was stopped after {limit_seconds:g} s, its time limit."
    if retry_count < max_retries:
        return Retry(code="timeout", message=message, meta=meta, delay_seconds=delay_seconds, timed_out=True)
    code = "timeout_max_retries" if max_retries else "timeout"
    return Failed(code=code, message=message, retryable=True, hint="retry_with_backoff", meta=meta, timed_out=True)


def after_loss(*, cancel_requested: bool, cancel_reason: str | None, lost_before: int) -> Lost | Failed | Canceled:
    """A job whose worker vanished goes on, unless somebody wished it stopped or it happened too often."""
    if cancel_requested:
        return Canceled(by="system", reason=cancel_reason or "canceled while its worker was gone")
    if lost_before + 1 >= MOST_LOST_LEASES:
        return Failed(
            code="worker_lost",
            message=f"The worker vanished {MOST_LOST_LEASES} times while this job ran.",
            retryable=True,
            hint="retry_with_backoff",
        )
    return Lost()


def after_crash(
    crashed: Crashed, *, cancel_requested: bool, cancel_reason: str | None, crashed_before: int, lost_before: int
) -> Lost | Failed | Canceled:
    """A job whose process died goes on at once, unless somebody wished it stopped or it happened too often."""
    if not crashed.own:
        return after_loss(cancel_requested=cancel_requested, cancel_reason=cancel_reason, lost_before=lost_before)
    if cancel_requested:
        return Canceled(by="worker", reason=cancel_reason or "canceled when its process died")
    deaths = crashed_before + crashed.deaths
    if deaths < MOST_CRASHES:
        return Lost(crash=crashed.how, deaths=crashed.deaths)
    return Failed(
        code="worker_lost",
        message=f"The job was given up after {deaths} deaths of its process; at last {crashed.how}.",
        retryable=True,
        hint="retry_with_backoff",
        meta={"crash": crashed.how},
        crashed=True,
    )
