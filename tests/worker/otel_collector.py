"""A collector of OpenTelemetry: takes spans over HTTP, as the real ones do, and keeps them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """What arrived, as plain values."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.spans: list[dict[str, Any]] = []
        self.resources: list[dict[str, str]] = []

    def take(self, body: bytes) -> None:
        """One delivery of spans."""
        for part in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resources.append({one.key: one.value.string_value for one in part.resource.attributes})
            for scope in part.scope_spans:
                self.spans += [_plain(one) for one in scope.spans]

    @staticmethod
    def named_in(spans: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
        """Those of a name, in the order of their beginnings."""
        return sorted((one for one in spans if one["name"] == name), key=lambda one: int(one["began"]))


def _plain(span: Any) -> dict[str, Any]:
    return {
        "name": span.name,
        "trace_id": span.trace_id.hex(),
        "span_id": span.span_id.hex(),
        "parent_id": span.parent_span_id.hex() or None,
        "began": span.start_time_unix_nano,
        "ended": span.end_time_unix_nano,
        "failed": span.status.message if span.status.code == span.status.STATUS_CODE_ERROR else None,
        "facts": {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes},
        "events": len(span.events),
    }


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector on a port of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.take(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
