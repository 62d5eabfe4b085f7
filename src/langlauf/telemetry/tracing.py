"""OpenTelemetry spans of a job, in the trace of the request that submitted it.

Without tracing nothing of OpenTelemetry is imported. It is set up by the variables that OpenTelemetry itself reads, or
by the program that mounts this one. Then the `traceparent` stored with a job is that of its submission, and claim,
attempts, chunks and deliveries are child spans of it, in whatever process they happen.

Attributes are ids and names only: no input, no result, no error text.
"""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Literal

from langlauf.domain.errors import SettingsError
from langlauf.domain.provenance import Trace, read_trace
from langlauf.version import VERSION

if TYPE_CHECKING:
    from opentelemetry import trace as api
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider

Kind = Literal["producer", "consumer", "internal", "client"]
#: The variables of OpenTelemetry that say where spans are sent.
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_FLUSH_MILLISECONDS = 5_000


class TraceSpan:
    """An open span. Without tracing it does nothing but pass on the trace context of its parent."""

    __slots__ = ("_span", "trace")

    def __init__(self, parent: Trace | None, span: "api.Span | None" = None) -> None:
        #: the trace context for child spans, here and in other processes
        self.trace = parent if span is None else _trace_of(span)
        self._span = span

    def __enter__(self) -> "TraceSpan":
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the span open: only `start_span` ends one."""

    def set_attributes(self, **attributes: str | float) -> None:
        """Set attributes, with the prefix `langlauf.`."""
        if self._span is not None:
            self._span.set_attributes(_prefixed(attributes))

    def fail(self, code: str) -> None:
        """Set the status to error, with a code as its description."""
        if self._span is not None:
            from opentelemetry.trace import StatusCode

            self._span.set_status(StatusCode.ERROR, code)


class _Tracing:
    """The tracer of this process, if tracing is set up."""

    tracer: "api.Tracer | None" = None
    #: None if another program made it: then that program shuts it down
    provider: "TracerProvider | None" = None


def set_up_tracing() -> None:
    """Export spans as the environment says; else use the tracer of the program around us; else do nothing."""
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
    """Flush and shut down; an unreachable collector delays the shutdown by 5 seconds at most."""
    provider, _Tracing.provider, _Tracing.tracer = _Tracing.provider, None, None
    if provider is not None:
        provider.force_flush(_FLUSH_MILLISECONDS)
        provider.shutdown()


def is_tracing() -> bool:
    """Whether spans are recorded."""
    return _Tracing.tracer is not None


def start_span(
    name: str, parent: Trace | None, kind: Kind = "internal", **attributes: str | float
) -> AbstractContextManager[TraceSpan]:
    """Open a span for the duration of the block, and make it the current one."""
    if _Tracing.tracer is None:
        return TraceSpan(parent)
    return _open_span(_Tracing.tracer, name, parent, kind, attributes)


@contextmanager
def _open_span(
    tracer: "api.Tracer", name: str, parent: Trace | None, kind: Kind, attributes: Mapping[str, Any]
) -> Iterator[TraceSpan]:
    from opentelemetry.trace import use_span

    made = _start(tracer, name, parent, kind, attributes, None)
    # Of an exception only its type is recorded: its text may hold private data.
    with use_span(made, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        span = TraceSpan(parent, made)
        try:
            yield span
        except BaseException as error:
            span.fail(type(error).__name__)
            raise


def now_ns() -> int:
    """Return the start time for a later `record_span`; 0 without tracing."""
    return 0 if _Tracing.tracer is None else time.time_ns()


def record_span(
    name: str, parent: Trace | None, began: int, failed: str | None = None, **attributes: str | float
) -> None:
    """Record a span that started at `began` (of `now_ns`) and has just ended."""
    if _Tracing.tracer is None or began == 0:
        return
    made = _start(_Tracing.tracer, name, parent, "internal", attributes, began)
    if failed is not None:
        TraceSpan(parent, made).fail(failed)
    made.end()


def trace_from(traceparent: str | None, tracestate: str | None) -> Trace | None:
    """Return the trace context stored with a job, or None."""
    return None if traceparent is None else read_trace([traceparent], [tracestate or ""])


def _start(
    tracer: "api.Tracer", name: str, parent: Trace | None, kind: Kind, attributes: Mapping[str, Any], began: int | None
) -> "api.Span":
    from opentelemetry.trace import SpanKind

    return tracer.start_span(
        f"langlauf.{name}",
        context=_context_of(parent),
        kind=SpanKind[kind.upper()],
        attributes=_prefixed(attributes),
        start_time=began,
    )


def _context_of(parent: Trace | None) -> "Context":
    """Return the context of the parent; without one an empty context, so that the current span does not become it."""
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    if parent is None:
        return Context()
    carrier = {"traceparent": parent.traceparent} | ({"tracestate": parent.tracestate} if parent.tracestate else {})
    return TraceContextTextMapPropagator().extract(carrier, Context())


def _trace_of(span: "api.Span") -> Trace:
    context = span.get_span_context()
    trace_id, span_id = f"{context.trace_id:032x}", f"{context.span_id:016x}"
    parent = f"00-{trace_id}-{span_id}-{context.trace_flags & 1:02x}"
    return Trace(trace_id, parent, context.trace_state.to_header() or None)


def _prefixed(attributes: Mapping[str, str | float]) -> dict[str, str | float]:
    return {f"langlauf.{name}": value for name, value in attributes.items()}
