"""The log: every event by name, counted when it is logged, and its formats for people and machines."""

import json
import logging
import sys
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Protocol

from langlauf.clock import SystemClock
from langlauf.domain.errors import StoreUnhealthy
from langlauf.domain.instant import to_text
from langlauf.domain.redact import redact, redact_json
from langlauf.domain.text import escaped, escaped_lines

_log = logging.getLogger("langlauf")
_clock = SystemClock()


#: The field with a stack trace. A line for people has it below.
TRACE = "trace"


class LogEvent(StrEnum):
    """The events. The value is the message of the log line and the label of its counter."""

    #: that of `Enum` is computed in Python, at every count
    __hash__ = str.__hash__

    SERVER_STARTED = "server_started"
    SERVER_STOPPED = "server_stopped"
    REQUEST_FAILED = "request_failed"
    REQUEST_REFUSED = "request_refused"
    STREAM_CUT = "stream_cut"
    ANSWER_CUT = "answer_cut"
    NOT_RUNNING = "not_running"
    ATTEMPT_STARTED = "attempt_started"
    ATTEMPT_ENDED = "attempt_ended"
    ATTEMPT_FAILED = "attempt_failed"
    ATTEMPT_LOST = "attempt_lost"
    ATTEMPT_ABANDONED = "attempt_abandoned"
    ATTEMPT_UNWRITTEN = "attempt_unwritten"
    PROCESS_DIED = "process_died"
    WORKER_DIED = "worker_died"
    API_PROCESS_DIED = "api_process_died"
    SUPERVISOR_LOST = "supervisor_lost"
    EXECUTOR_CONNECTED = "executor_connected"
    EXECUTOR_LOST = "executor_lost"
    JOB_LIMIT_REACHED = "job_limit_reached"
    ANALYSIS_OUTPUT = "analysis_output"
    SCHEDULE_INVALID = "schedule_invalid"
    SCHEDULE_KEPT = "schedule_kept"
    JOB_SWEPT = "job_swept"
    RETENTION_RAN = "retention_ran"
    ORG_ERASED = "org_erased"
    ANALYSIS_PAUSED = "analysis_paused"
    ANALYSIS_RESUMED = "analysis_resumed"
    STORE_UNAVAILABLE = "store_unavailable"
    STORE_BACK = "store_back"
    MAINTENANCE_FAILED = "maintenance_failed"
    BLOBS_UNAVAILABLE = "blobs_unavailable"
    BLOBS_REMOVED = "blobs_removed"
    PAYLOAD_UNAVAILABLE = "payload_unavailable"
    STORE_IMPORTED = "store_imported"
    CLOCK_CORRECTED = "clock_corrected"
    LISTENER_AWAY = "listener_away"
    LISTENER_BACK = "listener_back"
    DELIVERY_SENT = "delivery_sent"
    DELIVERY_FAILED = "delivery_failed"
    DELIVERY_GAVE_UP = "delivery_gave_up"
    DELIVERY_SUPPRESSED = "delivery_suppressed"
    DELIVERY_UNWRITTEN = "delivery_unwritten"
    WEBHOOK_TESTED = "webhook_tested"
    ENDPOINT_PAUSED = "endpoint_paused"
    ENDPOINT_DISABLED = "endpoint_disabled"
    MAIL_MISCONFIGURED = "mail_misconfigured"


EVENT_COUNTS: Counter[LogEvent] = Counter()


class WithFacts(Protocol):
    """Something that log lines are about."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Return its ids."""


def log_event(
    event: LogEvent,
    level: int = logging.INFO,
    *,
    error: BaseException | None = None,
    about: WithFacts | None = None,
    **fields: Any,
) -> None:
    """Log an event with its fields and the facts of what it is about, and count it."""
    EVENT_COUNTS[event] += 1
    if _log.isEnabledFor(level):
        if about is not None:
            fields |= about.facts
        _log.log(level, event, extra={"fields": fields}, exc_info=error)


def log_store_failure(error: Exception, *, otherwise: str = "no answer", trace: bool = False, **fields: Any) -> None:
    """Log that a store operation failed, unless the store's health check has logged the outage already."""
    if not isinstance(error, StoreUnhealthy):
        reason = str(error) or otherwise
        log_event(LogEvent.STORE_UNAVAILABLE, logging.ERROR, error=error if trace else None, reason=reason, **fields)


class TextFormatter(logging.Formatter):
    """One line per event, for people."""

    def format(self, record: logging.LogRecord) -> str:
        fields = getattr(record, "fields", {})
        words = " ".join(f"{name}={value}" for name, value in fields.items() if name != TRACE)
        line = f"{to_text(_clock.now())} {record.levelname.lower():7} {record.getMessage()} {words}".rstrip()
        line = escaped(redact(line) if _may_hold_secrets(record, line) else line)
        if record.exc_info:
            line += "\n" + escaped_lines(redact(self.formatException(record.exc_info)))
        elif fields.get(TRACE):
            line += "\n" + escaped_lines(redact(fields[TRACE].rstrip()))
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object per line, for machines."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": to_text(_clock.now()),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line[TRACE] = self.formatException(record.exc_info)
        text = json.dumps(line, default=str)
        # Mask the values, not the JSON text, in which quotes and line ends are escaped.
        return json.dumps(redact_json(json.loads(text))) if _may_hold_secrets(record, text) else text


def _may_hold_secrets(record: logging.LogRecord, line: str) -> bool:
    """Whether the line may hold text from outside. Our own lines up to INFO have ids, numbers and cleaned text only."""
    ours = record.name == _log.name and record.levelno <= logging.INFO and not record.exc_info
    return not ours or "://" in line


def ensure_log_handler() -> None:
    """Log to standard error when mounted in another program that has not configured logging."""
    if not _log.hasHandlers():
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(TextFormatter())
        _log.addHandler(handler)
        _log.setLevel(logging.INFO)


def set_up_logging(log_format: str, level: str) -> None:
    """Send the log of the whole program to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
