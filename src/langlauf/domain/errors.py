"""The exceptions of Langlauf, and the sentences that it writes as the message of an error.

LanglaufError
├── AnalysisError            raised by an analysis; its code, hint and meta go into the job
│   ├── TransientError       retried: a timeout, the network, a busy upstream
│   └── PermanentError       not retried: it would fail again
├── RegistrationError        an analysis that cannot be registered
├── SettingsError            an unknown setting or a bad value
├── NotRunning               the application is used outside its lifespan
├── QueueIsFull              a queue limit is reached; has its scope and a retry delay
├── NoStreamSlot             too many open streams, long polls and waits
├── ResponseMemoryFull       too many large responses in memory
├── AccessLost               the credential of a waiting request expired or was revoked
├── WebhookUrlRefused        a URL that webhooks may not call; the message says why
├── StoreError
│   ├── StoreUnavailable     the write failed; nothing of it was stored
│   │   ├── Overloaded       too many operations are pending
│   │   ├── StoreUnhealthy   an outage that the health check has logged already
│   │   └── PayloadUnavailable  a payload in blob storage is missing, damaged or unreachable
│   ├── PayloadGone          a payload was removed while it was read
│   └── SchemaTooNew         a newer version has migrated this store
├── StaleAttempt             the attempt lost its lease; its write was refused
├── ResultUnstorable         a value that JSON or a database cannot hold
│   └── UnusableView         a view that cannot be shown
└── ResultTooLarge           a value over the size limit
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeVar

RetryHint = Literal["retry_with_backoff", "check_input_and_retry"]


class LanglaufError(Exception):
    """Base of all exceptions that this package raises on purpose."""

    #: What Langlauf itself adds to `error_meta` (see `domain/errors.py`).
    own_facts: Mapping[str, object] = {}


class AnalysisError(LanglaufError):
    """Raised by an analysis to end its attempt with a code and a message for people."""

    default_code: ClassVar[str] = "internal"
    default_hint: ClassVar[RetryHint | None] = None

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        hint: RetryHint | None = None,
        meta: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = str(message)  # callers may pass the exception that they caught
        self.code = code or self.default_code
        self.hint: RetryHint | None = hint or self.default_hint
        self.meta = dict(meta or {})


class TransientError(AnalysisError):
    """The attempt failed for a temporary reason; it is retried while retries are left."""

    default_code = "network_error"
    default_hint = "retry_with_backoff"


class PermanentError(AnalysisError):
    """The attempt failed for a reason that a retry would not change."""

    default_code = "validation_error"
    default_hint = "check_input_and_retry"


class RegistrationError(LanglaufError):
    """The analysis cannot be registered; the message says what to change."""


class SettingsError(LanglaufError):
    """A setting is unknown, or its value is invalid."""


class NotRunning(LanglaufError):
    """The application was used before its lifespan started, or after it ended."""


class QueueIsFull(LanglaufError):
    """The queue limit of the org, of the analysis or of the deployment is reached. Nothing was accepted."""

    def __init__(self, message: str, *, scope: str, retry_after: int) -> None:
        super().__init__(message)
        self.scope = scope
        #: whole seconds after which a retry will probably succeed
        self.retry_after = retry_after


class NoStreamSlot(LanglaufError):
    """The limit of open streams, long polls and waits is reached: for the credential, the org, or in all."""

    def __init__(self, scope: Literal["credential", "org", "all"], *, is_flood: bool = False) -> None:
        super().__init__(f"no slot is left ({scope})")
        self.scope = scope
        #: whether the same caller was refused repeatedly just now
        self.is_flood = is_flood


class ResponseMemoryFull(LanglaufError):
    """The memory for large responses is used up: for the org, or in all."""

    def __init__(self, scope: Literal["org", "all"]) -> None:
        super().__init__(f"no memory is left for a large response ({scope})")
        self.scope = scope


class AccessLost(LanglaufError):
    """The caller waits for something that it may no longer read."""


class WebhookUrlRefused(LanglaufError):
    """Webhooks may not call this URL; the message says why, for the person who gave it.

    `code` and `limit` say it to pages, which have their own words: `address` is not a URL that can be called.
    """

    def __init__(self, message: str, code: str = "address", limit: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.limit = limit


class StoreError(LanglaufError):
    """A store operation failed."""


class StoreUnavailable(StoreError):
    """The write failed; nothing of it was stored."""


class Overloaded(StoreUnavailable):
    """Too many operations are pending; nothing was accepted."""


class StoreUnhealthy(StoreUnavailable):
    """The store is down. Its health check has logged the reason; callers need not log it again."""


class PayloadUnavailable(StoreUnavailable):
    """A payload in blob storage cannot be read: it is missing, damaged or unreachable."""


class PayloadGone(StoreError):
    """A payload was removed while it was read; its record says so by now."""


class SchemaTooNew(StoreError):
    """A newer version has migrated this store; this one refuses to open it."""


class StaleAttempt(LanglaufError):
    """The attempt lost its lease, so its write was refused."""


class ResultUnstorable(LanglaufError):
    """The value holds something that JSON or a database cannot store."""


class UnusableView(ResultUnstorable):
    """The view cannot be shown; the message says what to give instead."""


class ResultTooLarge(LanglaufError):
    """The value is larger than the limit for results."""


# -- sentences ---------------------------------------------------------------------------------------------------------
# Sentences that Langlauf itself writes as the message of an error.
#
# Each is stored twice: as an English message, and by its name and values in `error_meta`, so that pages can say it in
# another language. What an analysis wrote has no name here, whatever its words are.

#: Members of `error_meta` that only Langlauf writes: the sentence, and the type of an exception that is not its own.
SENTENCE = "sentence"
ERROR_TYPE = "error_type"
OWN_FACTS = (SENTENCE, ERROR_TYPE)

#: By name. A value is a text or a number; the functions of PostgreSQL write the first three, too.
SENTENCES: Mapping[str, str] = {
    "timed_out": "The attempt was stopped after {seconds:g} s, its time limit.",
    "worker_vanished": "The worker vanished {times} times while this job ran.",
    "process_died": "The job was given up after {deaths} deaths of its process; at last {how}.",
    "canceled_itself": "The analysis canceled itself.",
    "ended_program": "The analysis tried to end the program: {error}.",
    "unreadable_error": "{error}, which cannot be shown",
    "several_errors": "{count} errors: {detail}",
    "input_outdated": "The stored input no longer fits the analysis: {detail}",
    "earlier_result_unreadable": "The result of an earlier job cannot be read at the moment.",
    "end_refused": "The store refused how the attempt ended.",
    "process_not_started": "A process could not be started: {detail}.",
    "not_importable": (
        "{reference} cannot be imported in the process that should run it ({detail}): "
        "install the application there, in the version of the worker."
    ),
    "too_large": "the value has {bytes:,} bytes, the limit is {limit:,}",
    "larger_than": "the value has more than the {limit:,} bytes that are allowed",
    "unstorable": "{detail}",
    "dask_unreachable": "The Dask scheduler at {address} cannot be reached; is it running?",
    "dask_lost": "The Dask cluster at {address} was lost while it computed a chunk.",
    "dask_incompatible": (
        "The Dask cluster at {address} cannot run chunks ({detail}): install langlauf, in the version of this worker, "
        "on all workers of the cluster, and restart them."
    ),
    "dask_main_program": (
        "{function} is defined in the main program, where a Dask worker cannot import it: "
        "move it to a module that is installed on the cluster."
    ),
    "dask_other_version": (
        "A Dask worker has another version of langlauf than the worker: install the same version on both."
    ),
}

Raised = TypeVar("Raised", bound=LanglaufError)


def sentence_text(name: str, /, **values: Any) -> str:
    """Return a sentence in English."""
    return SENTENCES[name].format(**values)


def sentence_meta(name: str, /, **values: Any) -> dict[str, Any]:
    """Return the member of `error_meta` that names a sentence and its values."""
    return {SENTENCE: {"name": name, **values}}


def error_saying(kind: type[Raised], name: str, /, **values: Any) -> Raised:
    """Return an exception whose message is one of these sentences."""
    error = kind(sentence_text(name, **values))
    error.own_facts = sentence_meta(name, **values)
    return error
