"""The check of a job's event log, event by event, and against the job's row."""

from typing import Any

import msgspec

from langlauf.domain.event import STATE_AFTER, EventType
from langlauf.domain.instant import Instant
from langlauf.domain.job import JobRecord
from langlauf.domain.redact import redact, redact_json
from langlauf.domain.state import STARTED, TERMINAL, Status, is_legal

_decode = msgspec.json.Decoder().decode
_TELL_PROGRESS = frozenset({EventType.PROGRESS, EventType.PARTIAL, EventType.COMPLETED})
_TELL_SNAPSHOT = frozenset({EventType.PARTIAL, EventType.COMPLETED})
_STARTS = frozenset({EventType.RUNNING, EventType.ATTEMPT_STARTED})
_NEWS = frozenset({EventType.PROGRESS, EventType.PARTIAL})


class EventLogCheck:
    """Checks the events of one job in order, then its row. Keeps the first violation of each rule.

    A job that was imported may have holes in its log, so only what is there is judged, not what it adds up to.
    """

    def __init__(self, job: JobRecord) -> None:
        self.found: dict[str, str] = {}
        self._job = job
        self._state: Status | None = None
        self._seq = 0
        self._time: Instant | None = None
        self._percent = 0
        self._finals = self._starts = self._retries = self._partials = 0
        self._last_result_id: str | None = None
        self._limit: str | None = None

    def add(self, seq: int, kind: str, occurred_at: Instant, payload: str) -> None:
        """The next event."""
        facts = self._facts(seq, payload)
        try:
            event_type = EventType(kind)
        except ValueError:
            self._find("event_types", f"event {seq} is a {kind}")
            self._seq = seq
            return
        if self._job.imported_at is None:
            self._judge_order(seq, event_type, occurred_at)
            self._judge_change(seq, event_type)
            self._judge_facts(seq, event_type, facts)
            self._judge_limit(seq, event_type, facts)
        self._seq, self._time = seq, occurred_at

    def finish(self) -> dict[str, str]:
        """Return the evidence by rule, once the log has ended."""
        job = self._job
        if job.imported_at is not None:
            if self._seq > job.event_seq:
                self._find("event_sequence", f"the log goes to {self._seq}, the job's event_seq is {job.event_seq}")
            return self.found
        if self._seq == 0:
            self._find("first_event", "there are no events")
            return self.found
        self._expect("event_sequence", "the log's last number", self._seq, "event_seq", job.event_seq)
        self._expect("state_matches_events", "the log leads to", self._state, "status", job.status)
        self._expect("one_final_event", "final events", self._finals, "expected", int(job.terminal))
        self._expect("progress_told", "the log's progress", self._percent, "progress_percent", job.progress_percent)
        self._expect("attempts_told", "starts in the log", self._starts, "attempt", job.attempt)
        self._expect("retries_told", "retries in the log", self._retries, "retry_count", job.retry_count)
        self._expect("limits_told", "the bound that the log tells of", self._limit, "limit_reached", job.limit_reached)
        self._expect("snapshots_told", "partials in the log", self._partials, "partial_count", job.partial_count)
        self._expect("snapshots_told", "the log's last snapshot", self._last_result_id, "result_id", job.result_id)
        return self.found

    def _find(self, rule: str, evidence: str) -> None:
        self.found.setdefault(rule, evidence)

    def _expect(self, rule: str, left: str, got: object, right: str, wanted: object) -> None:
        if got != wanted:
            self._find(rule, f"{left}: {got}, {right}: {wanted}")

    def _facts(self, seq: int, payload: str) -> dict[str, Any]:
        try:
            facts = _decode(payload)
        except msgspec.DecodeError as error:
            self._find("event_types", f"event {seq} has a payload that is not JSON: {error}")
            return {}
        # Escapes in raw JSON can hide a secret, or look like one.
        if ("\\" in payload or redact(payload) != payload) and redact_json(facts) != facts:
            self._find("no_secrets", f"the payload of event {seq}")
        return facts if isinstance(facts, dict) else {}

    def _judge_order(self, seq: int, kind: EventType, occurred_at: Instant) -> None:
        if self._seq == 0:
            if (seq, kind) != (1, EventType.QUEUED):
                self._find("first_event", f"it is number {seq}, a {kind}")
        elif seq != self._seq + 1:
            self._find("event_sequence", f"after {self._seq} comes {seq}")
        if self._time is not None and occurred_at < self._time:
            self._find("event_times", f"event {seq} is {self._time - occurred_at} µs before the one before it")

    def _judge_change(self, seq: int, kind: EventType) -> None:
        target = STATE_AFTER.get(kind)
        if self._state in TERMINAL:
            self._find("nothing_after_end", f"event {seq}, {kind}, comes after the end")
        elif self._seq == 0:
            target = target or Status.QUEUED  # a wrong first event is a violation of its own rule
        elif target is None and self._state not in STARTED:
            self._find("legal_transitions", f"event {seq}, {kind}, in state {self._state}")
        elif target is not None and not is_legal(self._state, target):
            self._find("legal_transitions", f"event {seq}: {self._state} to {target}")
        self._state = target or self._state
        self._finals += target in TERMINAL
        self._starts += kind in _STARTS
        self._retries += kind is EventType.RETRY_SCHEDULED

    def _judge_facts(self, seq: int, kind: EventType, facts: dict[str, Any]) -> None:
        if kind in _TELL_SNAPSHOT:
            self._judge_snapshot(seq, kind, facts)
        if kind not in _TELL_PROGRESS:
            return
        percent = facts.get("progress_percent")
        if not isinstance(percent, int):
            self._find("progress_told", f"event {seq}, {kind}, does not say how far the job is")
            return
        if percent < self._percent:
            self._find("progress_never_falls", f"event {seq}: from {self._percent} to {percent}")
        elif (percent == 100) != (kind is EventType.COMPLETED):  # noqa: PLR2004 - a percentage has a whole
            self._find("progress_never_falls", f"event {seq}, {kind}, says {percent}")
        self._percent = percent

    def _judge_limit(self, seq: int, kind: EventType, facts: dict[str, Any]) -> None:
        ended = {"events": _NEWS, "partials": frozenset({EventType.PARTIAL})}.get(self._limit or "", frozenset())
        if kind in ended:
            self._find("limits_told", f"event {seq}, {kind}, comes after the bound of {self._limit}")
        limit = facts.get("limit") if kind is EventType.PROGRESS else None
        if limit is not None and limit == self._limit:
            self._find("limits_told", f"event {seq} tells of the bound of {limit} once more")
        self._limit = limit or self._limit

    def _judge_snapshot(self, seq: int, kind: EventType, facts: dict[str, Any]) -> None:
        self._partials += kind is EventType.PARTIAL
        number = self._partials + (kind is EventType.COMPLETED)
        if facts.get("result_seq") != number or not isinstance(facts.get("result_id"), str):
            self._find("snapshots_told", f"event {seq}, {kind}, is not about snapshot {number}: {facts}")
        self._last_result_id = facts.get("result_id")
