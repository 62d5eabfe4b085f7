"""One HTTP connection: its requests, their deadlines and responses, and how it closes.

A client that sends slowly, floods or never reads is disconnected, and gets the reason as a problem like any other.
"""

import asyncio
import logging
from collections.abc import Iterable

from starlette.types import ASGIApp

from langlauf.auth.caller import network_of, request_id_from
from langlauf.problems import Problem, bad_request
from langlauf.server.connection_limit import ConnectionLimit
from langlauf.server.request_cycle import RequestCycle, encode_problem
from langlauf.server.request_parser import ReadStage, RequestParser
from langlauf.telemetry.log import LogEvent, log_event

#: Probes are answered as long as a connection can be opened at all.
_ALWAYS_ANSWERED = ("/health", "/ready")
_OVER_LIMIT_HEAD_SECONDS = 2.0
#: The first bytes of a new client may be in flight: until then it is not evicted as idle.
_ARRIVING_SECONDS = 0.05
_MOST_PIPELINED = 16


class HttpConnection(RequestParser):
    """HTTP/1.1 over one connection, with limits, deadlines, and refusals as problems."""

    __slots__ = (
        "_answering",
        "_app",
        "_connection_limit",
        "_idle_since",
        "_idle_timer",
        "_keep_alive",
        "_over_limit",
        "_pipeline",
        "_reading",
        "holder",
    )

    def __init__(self, app: ASGIApp, connection_limit: ConnectionLimit) -> None:
        super().__init__(connection_limit.limits)
        self._app = app
        self._connection_limit = connection_limit
        #: what the connection is counted for: an org, or an address until the org is known
        self.holder = ""
        #: the request read last, the one being answered, and those queued behind it
        self._reading: RequestCycle | None = None
        self._answering: RequestCycle | None = None
        self._pipeline: list[RequestCycle] = []
        self._keep_alive = True
        self._idle_since = 0.0
        self._idle_timer: asyncio.TimerHandle | None = None
        self._over_limit = False

    # -- lifecycle -----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # it is one that writes
        self.transport = transport
        self._connection_limit.connections.add(self)
        peer, here = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        self._client = (str(peer[0]), int(peer[1])) if isinstance(peer, tuple) else None
        self._server = (str(here[0]), int(here[1])) if isinstance(here, tuple) else None
        self.holder = self._address_holder(())
        self._over_limit = not self._connection_limit.add(self)
        if self._over_limit:
            self._shorten_linger()
        self._arm(_ARRIVING_SECONDS, self._is_silent)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection_limit.connections.discard(self)
        self._disarm()
        self.resume_writing()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._connection_limit.remove(self)
        self._pipeline.clear()
        for cycle in (self._reading, self._answering):
            if cycle is not None:
                cycle.disconnect()
        # What refers back to the connection goes, so that it needs no garbage collection, which stops all threads.
        self._reading = self._answering = None
        del self._parser
        if exc is None:
            self.transport.close()

    def evict(self) -> None:
        """Close to make room for another connection."""
        self._shorten_linger()
        if self._stage is ReadStage.BODY:
            self._refuse(_overloaded())
        elif self._answering is not None:  # its client does not read
            self._on_closing()
            self.transport.abort()
        else:
            self._disarm()
            if self._stage is ReadStage.HEAD or self._over_limit:
                self._write_problem(_overloaded())
            self._close()

    def count_for_org(self, org_id: str) -> None:
        """Count for an org; raise the problem where the server is full and the org has its share already."""
        self._connection_limit.change_holder(self, f"org {org_id}")
        if self._over_limit and not self._connection_limit.admits(self):
            raise _overloaded()

    def _address_holder(self, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """Return the holder while only the address of the client is known."""
        address = self._limits.proxies.client_of(self._client[0] if self._client else None, headers)
        return "address" if address is None else f"address {network_of(address)}"

    def shutdown(self) -> None:
        """Finish the current response and close; refuse a request that has not fully arrived."""
        self._pipeline.clear()
        self._shorten_linger()
        if self._drained is not None:
            return
        if self._stage is ReadStage.BODY or self._stage is ReadStage.HEAD:
            self._refuse(_stopping())
        elif self._answering is None:
            self.close_gracefully()
        else:
            self._answering.keep_alive = False

    # -- requests ------------------------------------------------------------------------------------------------------

    def on_headers_complete(self) -> None:
        upgrade, method = self._parser.should_upgrade(), self._parser.get_method()
        if upgrade and method != b"CONNECT":
            return
        self._disarm()
        self._connection_limit.mark_busy(self)
        self._over_limit = self._over_limit and not self._connection_limit.evict_idle()
        version = self._parser.get_http_version()
        self._check_head(version, upgrade=upgrade)
        if len(self._pipeline) >= _MOST_PIPELINED:
            self._stop(
                bad_request("Too many requests were sent on one connection without waiting for their responses.")
            )
        if self._limits.proxies.networks:
            self._connection_limit.change_holder(self, self._address_holder(self._headers))
        # A response before the end of the body closes the connection, unless the body is short.
        self._keep_alive = version != "1.0" and self._parser.should_keep_alive() and not self._over_limit
        scope = self._scope(method.decode("ascii"), version)
        cycle = RequestCycle(self, scope, keep_alive=self._keep_alive and self._is_short, expects=self._expects)
        self._reading = cycle
        self._stage = ReadStage.BODY
        if self._answering is None:
            self._answer(cycle)
        else:
            self.pause_reading()
            self._pipeline.append(cycle)

    def on_body(self, body: bytes) -> None:
        self._has_body = True
        if self._reading is not None and not self._reading.complete and self._reading.add_body(body):
            self.pause_reading()

    def _body_continues(self) -> None:
        self._connection_limit.mark_stalled(self)

    def on_message_complete(self) -> None:
        cycle = self._reading
        if cycle is None or self._parser.should_upgrade():
            return
        self._has_end = True
        self._disarm()
        self._connection_limit.stalled.discard(self)
        self._stage = ReadStage.READ
        if cycle.complete:
            self._become_idle()
            return
        self._headers = []  # the application may drop them from here on
        cycle.end_of_body()
        if not cycle.started:
            cycle.keep_alive = self._keep_alive

    def _answer(self, cycle: RequestCycle) -> None:
        self._answering = cycle
        if cycle.scope["path"] in _ALWAYS_ANSWERED:
            self._start(cycle)
        else:
            self._connection_limit.start_limiter.start(self.holder, lambda: self._start(cycle))

    def _start(self, cycle: RequestCycle) -> None:
        if not cycle.disconnected:
            task = self.loop.create_task(cycle.run(self._app))
            self._connection_limit.tasks.add(task)
            task.add_done_callback(self._connection_limit.tasks.discard)

    def response_complete(self) -> None:
        """Answer the next pipelined request, or become idle."""
        self._answering = None
        if self._drained is not None or self.transport.is_closing():
            return
        self.resume_reading()
        if self._pipeline:
            self._answer(self._pipeline.pop(0))
        elif self._stage is ReadStage.READ:
            self._become_idle()

    # -- deadlines -----------------------------------------------------------------------------------------------------

    def _become_idle(self) -> None:
        self._stage = ReadStage.IDLE
        self._connection_limit.mark_idle(self, late=False)
        self._idle_since = self.loop.time()
        if self._idle_timer is None:
            self._idle_timer = self.loop.call_later(self._limits.keep_alive_seconds, self._check_idle)

    def _check_idle(self) -> None:
        """Close after the keep-alive time. Requests do not rearm the timer: it checks the time when it fires."""
        self._idle_timer = None
        if self._stage is not ReadStage.IDLE or self._drained is not None:
            return  # the end of the current response arms it again
        left = self._idle_since + self._limits.keep_alive_seconds - self.loop.time()
        if left > 0:
            self._idle_timer = self.loop.call_later(left, self._check_idle)
        else:
            self.close_gracefully()

    def _is_silent(self) -> None:
        """Mark as idle a client that has sent nothing although an ordinary one would have."""
        self._connection_limit.mark_idle(self, late=self._over_limit)
        limit = _OVER_LIMIT_HEAD_SECONDS if self._over_limit else self._limits.head_seconds
        self._arm(max(0.0, limit - _ARRIVING_SECONDS), self._head_is_late)

    def _head_is_late(self) -> None:
        if self._stage is ReadStage.IDLE:  # no byte arrived: there is no request to answer
            self.close_gracefully()
        else:
            seconds = self._limits.head_seconds
            self._refuse(
                Problem(
                    408,
                    "request_timeout",
                    f"The headers of the request took longer than {seconds:g} s to arrive; send it again.",
                )
            )

    def _body_is_late(self) -> None:
        seconds = self._limits.body_seconds
        if self._reading is not None and self._reading.complete:  # it has its response already
            self.close_gracefully()
            return
        self._refuse(
            Problem(
                408,
                "request_timeout",
                f"The body of the request took longer than {seconds:g} s to arrive; send it again.",
            )
        )

    # -- responses without the application -----------------------------------------------------------------------------

    def date_header(self) -> bytes:
        """Return the Date field of a response."""
        return self._connection_limit.date_header()

    def _refuse(self, problem: Problem) -> None:
        """Respond without the application and close; earlier requests still get their response."""
        self._disarm()
        log_event(LogEvent.REQUEST_REFUSED, logging.DEBUG, status=problem.status, reason=problem.message)
        self._pipeline.clear()
        answering = self._answering
        if answering is not None and (answering is not self._reading or self._stage is not ReadStage.BODY):
            answering.keep_alive = False
            self._drained = 0
            return
        if answering is not None:
            started = answering.started
            answering.disconnect()
            if started:  # a partial response cannot be followed by another
                self._close()
                return
        self._stage = ReadStage.HEAD
        self._write_problem(problem)
        self.close_gracefully()

    def _write_problem(self, problem: Problem) -> None:
        sent_id = next((value for name, value in self._headers if name == b"x-request-id"), b"")
        self.transport.write(
            encode_problem(
                problem, request_id_from(sent_id.decode("latin-1")), self.date_header(), self._limits.public_url
            )
        )

    # -- closing -------------------------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        super().pause_writing()
        self._connection_limit.mark_stalled(self)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stage is not ReadStage.BODY:
            self._connection_limit.stalled.discard(self)

    def _on_closing(self) -> None:
        self._connection_limit.mark_closing(self)

    def close_gracefully(self) -> None:
        """Close so that the client can read what was written; nothing more is answered."""
        self._end(unread=self._stage not in (ReadStage.IDLE, ReadStage.READ))


def _overloaded() -> Problem:
    message = "The server has as many connections as it allows; nothing was accepted. Try again."
    return Problem(503, "unavailable", message, headers={"Retry-After": "5"})


def _stopping() -> Problem:
    message = "The server is shutting down; nothing was accepted. Try again."
    return Problem(503, "unavailable", message, headers={"Retry-After": "5"})
