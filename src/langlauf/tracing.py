"""Spans for OpenTelemetry: what a job went through, joined to the trace of its request.

Nothing of it is imported, and nothing is made, unless tracing was set up: by the variables that OpenTelemetry itself
reads, or by the program that mounts this one. Then the stored `traceparent` of a job is that of its submission, and
claim, attempts, chunks and deliveries are spans below it, whichever process they happen in.

A span has ids and names alone: no input, no result, no text of an error.
"""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from langlauf.domain.errors import SettingsError
from langlauf.domain.trace import Trace, read_trace
from langlauf.version import VERSION

if TYPE_CHECKING:
    from opentelemetry import trace as api
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider

Kind = Literal["producer", "consumer", "internal", "client"]
#: Where spans are sent is said to OpenTelemetry in its own words.
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_FLUSH_MILLISECONDS = 5_000


class Span:
    """A part of a job's story that is being told. Without tracing it says nothing, and passes on what it was given."""

    def __init__(self, given: Trace | None, span: "api.Span | None" = None) -> None:
        #: what whoever goes on from here is to carry
        self.trace = given if span is None else _trace_of(span)
        self._span = span

    def note(self, **facts: str | float) -> None:
        """Adds what is known by now."""
        if self._span is not None:
            self._span.set_attributes(_named(facts))

    def fail(self, code: str) -> None:
        """It did not go well; `code` says how in one word."""
        if self._span is not None:
            from opentelemetry.trace import StatusCode

            self._span.set_status(StatusCode.ERROR, code)


class _Tracing:
    """What is set up in this process."""

    tracer: "api.Tracer | None" = None
    #: ours to end; none where another program brought it
    provider: "TracerProvider | None" = None


def set_up_tracing() -> None:
    """Sends spans where the environment says; else uses what the program around us has set up; else does nothing."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return
    wanted = next((name for name in ENDPOINTS if os.environ.get(name)), None)
    try:
        from opentelemetry import trace as api
    except ModuleNotFoundError as error:
        if wanted is None:
            return
        raise SettingsError(f"{wanted} is set, but tracing is not installed: pip install 'langlauf[otel]'") from error
    known = not isinstance(api.get_tracer_provider(), api.ProxyTracerProvider)
    if wanted is not None and not known and _Tracing.provider is None:
        _Tracing.provider = _own_provider(wanted)
    if _Tracing.provider is not None:
        _Tracing.tracer = _Tracing.provider.get_tracer("langlauf", VERSION)
    elif known:
        _Tracing.tracer = api.get_tracer("langlauf", VERSION)


def _own_provider(wanted: str) -> "TracerProvider":
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        raise SettingsError(f"{wanted} is set, but {error.name} is missing: pip install 'langlauf[otel]'") from error
    name = os.environ.get("OTEL_SERVICE_NAME", "langlauf")
    resource = Resource.create({"service.name": name, "service.version": VERSION})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def end_tracing() -> None:
    """Sends what is left; a receiver that is away does not hold up the stop for long."""
    provider, _Tracing.provider, _Tracing.tracer = _Tracing.provider, None, None
    if provider is not None:
        provider.force_flush(_FLUSH_MILLISECONDS)
        provider.shutdown()


@contextmanager
def span(name: str, given: Trace | None, kind: Kind = "internal", **facts: str | float) -> Iterator[Span]:
    """Tells of something for as long as the block lasts; what the block starts finds it as the current span."""
    if _Tracing.tracer is None:
        yield Span(given)
        return
    from opentelemetry.trace import use_span

    made = _start(_Tracing.tracer, name, given, kind, facts, None)
    # An exception is told by its code, where there is one: its text may have what is nobody's business.
    with use_span(made, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        telling = Span(given, made)
        try:
            yield telling
        except BaseException as error:
            telling.fail(type(error).__name__)
            raise


def moment() -> int:
    """When something begins that will be told once it is over; 0 where nobody listens."""
    return 0 if _Tracing.tracer is None else time.time_ns()


def told(name: str, given: Trace | None, began: int, failed: str | None = None, **facts: str | float) -> None:
    """Tells of something that is over and began at that moment."""
    if _Tracing.tracer is None or began == 0:
        return
    made = _start(_Tracing.tracer, name, given, "internal", facts, began)
    if failed is not None:
        Span(given, made).fail(failed)
    made.end()


def trace_from(traceparent: str | None, tracestate: str | None) -> Trace | None:
    """The trace that was stored with a job, where there is one."""
    return None if traceparent is None else read_trace([traceparent], [tracestate or ""])


def _start(
    tracer: "api.Tracer", name: str, given: Trace | None, kind: Kind, facts: Mapping[str, Any], began: int | None
) -> "api.Span":
    from opentelemetry.trace import SpanKind

    return tracer.start_span(
        f"langlauf.{name}",
        context=_context_of(given),
        kind=SpanKind[kind.upper()],
        attributes=_named(facts),
        start_time=began,
    )


def _context_of(given: Trace | None) -> "Context":
    """The story that goes on; where there is none a new one begins, whatever span happens to be current here."""
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    if given is None:
        return Context()
    carrier = {"traceparent": given.traceparent} | ({"tracestate": given.tracestate} if given.tracestate else {})
    return TraceContextTextMapPropagator().extract(carrier, Context())


def _trace_of(span: "api.Span") -> Trace:
    context = span.get_span_context()
    trace_id, span_id = f"{context.trace_id:032x}", f"{context.span_id:016x}"
    parent = f"00-{trace_id}-{span_id}-{context.trace_flags & 1:02x}"
    return Trace(trace_id, parent, context.trace_state.to_header() or None)


def _named(facts: Mapping[str, str | float]) -> dict[str, str | float]:
    return {f"langlauf.{name}": value for name, value in facts.items()}
