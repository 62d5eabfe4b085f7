"""The errors Langlauf raises, as a family.

LanglaufError
├── AnalysisError            raised by an analysis; carries code, hint and meta into the job
│   ├── TransientError       worth another attempt: a time-out, the network, a busy upstream
│   └── PermanentError       trying again without a change would fail again
├── RegistrationError        an analysis that cannot be registered as written
├── SettingsError            a setting that is unknown or has a bad value
├── NotRunning               the application was called before its lifespan was entered, or after its end
├── QueueIsFull              no more jobs may wait; says whose queue it is and when to come back
├── NoPlace                  too many requests stay already: of the credential, of the org, or in all
├── TurnedAway               the caller may no longer see what it waits for
├── TargetRefused            an address that no webhook may be sent to; the message says why
├── StoreError
│   ├── StoreUnavailable     the store did not take the write; nothing of it was kept
│   │   ├── Overloaded       too much is under way to begin with more
│   │   ├── StoreUnwell      the same for a reason that the health of the store has logged once for all
│   │   └── PayloadUnavailable  a payload that is kept as a blob is missing, damaged or out of reach
│   └── SchemaTooNew         a newer program has migrated this store
├── StaleAttempt             the attempt lost its lease; its writes are refused
├── ResultUnstorable         a result that JSON or a database cannot hold
│   └── UnusableView         a view that could not be shown as it is given
└── ResultTooLarge           a result over the limit
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

RetryHint = Literal["retry_with_backoff", "check_input_and_retry"]


class LanglaufError(Exception):
    """The root of everything this package raises on purpose."""


class AnalysisError(LanglaufError):
    """What an analysis raises to end its attempt with a code and a message for people."""

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
        self.message = str(message)  # some hand over the exception they caught
        self.code = code or self.default_code
        self.hint: RetryHint | None = hint or self.default_hint
        self.meta = dict(meta or {})


class TransientError(AnalysisError):
    """The attempt failed for a reason that may pass; it is retried while retries are left."""

    default_code = "network_error"
    default_hint = "retry_with_backoff"


class PermanentError(AnalysisError):
    """The attempt failed for a reason that another attempt would not change."""

    default_code = "validation_error"
    default_hint = "check_input_and_retry"


class RegistrationError(LanglaufError):
    """The analysis cannot be registered as it is written."""


class SettingsError(LanglaufError):
    """A setting is unknown, or its value is not usable."""


class NotRunning(LanglaufError):
    """The application was called before its lifespan was entered, or after its end."""


class QueueIsFull(LanglaufError):
    """No more jobs may wait: of the org, of the analysis, or in all. Nothing was accepted."""

    def __init__(self, message: str, *, scope: str, retry_after: int) -> None:
        super().__init__(message)
        self.scope = scope
        #: whole seconds after which there is probably room again
        self.retry_after = retry_after


class NoPlace(LanglaufError):
    """No more streams, long polls and waits may stay: of the credential, of the org, or in all."""

    def __init__(self, scope: Literal["credential", "org", "all"], *, is_flood: bool = False) -> None:
        super().__init__(f"no place is left ({scope})")
        self.scope = scope
        #: whether the same was refused again and again just now
        self.is_flood = is_flood


class NoRoom(LanglaufError):
    """No more large answers can be in memory at once: of the org, or in all."""

    def __init__(self, scope: Literal["org", "all"]) -> None:
        super().__init__(f"no room is left for a large answer ({scope})")
        self.scope = scope


class TurnedAway(LanglaufError):
    """The caller waits for something that it may no longer see."""


class TargetRefused(LanglaufError):
    """No webhook may be sent to this address; the message says why, for whoever gave it."""


class StoreError(LanglaufError):
    """The store could not do what it was asked."""


class StoreUnavailable(StoreError):
    """The store did not take the write; nothing of it was kept."""


class Overloaded(StoreUnavailable):
    """Too much is under way already; nothing was accepted."""


class StoreUnwell(StoreUnavailable):
    """The store is not well. Its health has logged the reason; callers need not log it again."""


class PayloadUnavailable(StoreUnavailable):
    """A payload that is kept as a blob cannot be read: it is missing, damaged or out of reach."""


class PayloadGone(StoreError):
    """A payload was removed while it was read; its record says so by now."""


class SchemaTooNew(StoreError):
    """A newer program has migrated this store; this one leaves it alone."""


class StaleAttempt(LanglaufError):
    """The attempt no longer holds its lease, so its write was refused."""


class ResultUnstorable(LanglaufError):
    """The value holds something that JSON or a database cannot keep."""


class UnusableView(ResultUnstorable):
    """The view could not be shown as it is given; the message says what to give instead."""


class ResultTooLarge(LanglaufError):
    """The value is larger than the limit for results."""
