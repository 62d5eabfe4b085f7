"""An attempt as the process that runs it sees it: every call is a question to the worker, which has the lease."""

import os
import threading

from langlauf.analysis.chunking import Chunks
from langlauf.domain.attempt import Checkpoint, Partial, Progress
from langlauf.domain.errors import AnalysisError, StaleAttempt, TransientError
from langlauf.domain.outcome import Failure
from langlauf.worker.processes.child_protocol import (
    Answer,
    CouldNot,
    FindChunk,
    Found,
    KeepChunk,
    LookBack,
    MapChunks,
    ProcessLine,
    Question,
    RunAnalysis,
    ShowPartial,
    Stop,
    TellProgress,
    Written,
    raw,
    text_of,
)


class RemoteAttempt:
    """Asks over the line; several threads of the function may do so, one after another."""

    def __init__(self, line: ProcessLine, task: RunAnalysis) -> None:
        self.org_id = task.org_id
        self.job_id = task.job_id
        self.number = task.attempt
        self.largest_result = task.largest_result
        self.trace_id = task.trace_id
        self.traceparent = task.traceparent
        self.tracestate = task.tracestate
        self._line = line
        self._lock = threading.Lock()
        self._canceled = False
        #: the process that may use the line; None once the function has ended
        self._owner: int | None = os.getpid()

    @property
    def canceled(self) -> bool:
        """Whether somebody asked the job to stop."""
        if not self._canceled and self._lock.acquire(blocking=False):  # whoever asks now will see it come by
            try:
                self._canceled = self._owner == os.getpid() and isinstance(self._line.glance(), Stop)
            finally:
                self._lock.release()
        return self._canceled

    def close(self) -> None:
        """The function has ended: a thread that it left behind cannot speak for it any more."""
        with self._lock:
            self._owner = None

    def write(self, write: Progress | Partial | Checkpoint) -> None:
        """Returns when the write is on disk."""
        self._ask(_question(write))

    def chunk(self, key: str) -> str | None:
        """The stored value of a finished chunk as JSON text."""
        return self._find(FindChunk(key))

    def previous(self, match: str) -> str | None:
        """What an earlier job with these values found, as JSON text."""
        return self._find(LookBack(raw(match)))

    def _find(self, question: FindChunk | LookBack) -> str | None:
        answer = self._ask(question)
        return text_of(answer.payloads[0]) if isinstance(answer, Found) and answer.payloads else None

    def map(self, chunks: Chunks, step: str | None) -> list[str]:
        """The values of all chunks as JSON text."""
        answer = self._ask(MapChunks(chunks.function, chunks.keys, [raw(item) for item in chunks.items], step))
        return [text_of(payload) for payload in answer.payloads] if isinstance(answer, Found) else []

    def _ask(self, question: Question) -> Answer:
        with self._lock:
            if self._owner != os.getpid():
                raise StaleAttempt("the function has ended, or this is a process of its own; it cannot tell any more")
            self._line.send(question)
            while True:
                answer = self._line.receive()
                if isinstance(answer, Stop):
                    self._canceled = True
                elif isinstance(answer, Written | Found | CouldNot):
                    break
        if isinstance(answer, CouldNot):
            raise error_from(answer.failure)
        if isinstance(answer, Written) and answer.refused:
            raise StaleAttempt(f"attempt {self.number} of job {self.job_id} no longer holds its lease")
        return answer


def _question(write: Progress | Partial | Checkpoint) -> Question:
    if isinstance(write, Progress):
        return TellProgress(percent=write.percent, step=write.step, replayed=write.replayed)
    if isinstance(write, Checkpoint):
        return KeepChunk(write.key, raw(write.payload))
    return ShowPartial(
        result_id=write.result_id,
        payload=raw(write.payload),
        summary=raw(write.summary),
        views=raw(write.views),
        percent=write.percent,
        step=write.step,
        replayed=write.replayed,
    )


def error_from(failure: Failure) -> AnalysisError:
    """A failure in another process as an exception in this one: whoever classifies it finds the same failure."""
    kind = TransientError if failure.transient else AnalysisError
    return kind(failure.message, code=failure.code, hint=failure.hint, meta=failure.meta)
