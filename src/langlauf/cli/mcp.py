"""`langlauf mcp`: a bridge for desktop hosts, which start a program and speak with it over its input and output."""

import base64
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO

import click
import httpx2
import msgspec

from langlauf.cli.options import CLIENT_SETTINGS, errors_end_command, settings_options
from langlauf.client.core import ClientCore

_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_NAMES = ("name", "uri", "taskId")
#: A server that restarts is waited for this long; repeating a request is safe, because a call attaches to its job.
_RETRY_SECONDS, _PAUSE_SECONDS = 60.0, 0.5
#: A stream of a subscription is not repeated: its client knows what it has seen, and opens another one.
_NOT_REPEATED = ("subscriptions/listen",)
_INTERNAL_ERROR = -32603
_MOST_AT_ONCE = 64


@click.command()
@settings_options(*CLIENT_SETTINGS)
def mcp(url: str | None, org: str | None, key: str | None) -> None:
    """Connect an agent to the tools of a server.

    The agent writes JSON-RPC to standard input and reads it from standard output, a message per line; each request goes
    to /mcp of the server.
    """
    with errors_end_command():
        core = ClientCore(url, org, key, "")
    StdioBridge(core, sys.stdout.buffer).run(sys.stdin.buffer)


class StdioBridge:
    """Passes messages between lines and HTTP requests, several at once."""

    def __init__(self, core: ClientCore, output: BinaryIO) -> None:
        self._http = httpx2.Client(**core.http_options(), timeout=httpx2.Timeout(None, connect=10.0))
        self._output = output
        self._writing = threading.Lock()
        #: requests under way by id, so that a cancellation finds its response
        self._open: dict[Any, httpx2.Response] = {}
        self._canceled: set[Any] = set()
        #: the version that a handshake agreed on
        self._version: str | None = None

    def run(self, lines: BinaryIO) -> None:
        """Pass messages on until the input ends."""
        with ThreadPoolExecutor(_MOST_AT_ONCE) as pool:
            for line in lines:
                if line.strip():
                    pool.submit(self._pass_on, line)
            for response in list(self._open.values()):
                response.close()

    def _pass_on(self, line: bytes) -> None:
        try:
            message = msgspec.json.decode(line)
        except msgspec.DecodeError:
            message = None  # the server says what is wrong with it
        fields = message if isinstance(message, dict) else {}
        if fields.get("method") == "notifications/cancelled":
            self._cancel((fields.get("params") or {}).get("requestId"))
            return
        deadline = time.monotonic() + _RETRY_SECONDS
        while not self._sent(line, fields):
            if fields.get("method") in _NOT_REPEATED or time.monotonic() > deadline:
                self._fail(fields.get("id"), f"{self._http.base_url} does not answer; is the server running?")
                return
            time.sleep(_PAUSE_SECONDS)

    def _sent(self, line: bytes, fields: dict[str, Any]) -> bool:
        """Send a request and write what comes back; False where the connection broke before the response."""
        request_id = fields.get("id")
        try:
            with self._http.stream("POST", "/mcp", content=line, headers=self._headers(fields)) as response:
                self._open[request_id] = response
                if request_id in self._canceled:
                    return True
                answered = [self._write(message, fields) for message in _messages(response)]
        except (httpx2.HTTPError, OSError):
            return request_id in self._canceled
        finally:
            self._open.pop(request_id, None)
        return request_id is None or any(answered)

    def _headers(self, fields: dict[str, Any]) -> dict[str, str]:
        """Return the headers that repeat what a message says."""
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        found = fields.get("params")
        params = found if isinstance(found, dict) else {}
        meta = params.get("_meta")
        version = meta.get(_VERSION_KEY) if isinstance(meta, dict) else None
        if isinstance(version or self._version, str):
            headers["MCP-Protocol-Version"] = _header(str(version or self._version))
        headers["Mcp-Method"] = _header(str(fields.get("method", "")))
        name = next((params[one] for one in _NAMES if isinstance(params.get(one), str)), None)
        return headers if name is None else {**headers, "Mcp-Name": _header(name)}

    def _write(self, message: bytes, fields: dict[str, Any]) -> bool:
        """Write a message on a line of its own, and return whether it is the response."""
        told = msgspec.json.decode(message)
        if fields.get("method") == "initialize" and isinstance(told.get("result"), dict):
            self._version = told["result"].get("protocolVersion")
        if "id" not in told and "error" in told and "id" in fields:  # the server could not read the id; this side can
            told, message = {**told, "id": fields["id"]}, b""
        with self._writing:
            self._output.write((message or msgspec.json.encode(told)) + b"\n")
            self._output.flush()
        return "id" in told

    def _cancel(self, request_id: Any) -> None:
        """Close the response of a request: that ends the request, and leaves its job alone."""
        self._canceled.add(request_id)
        if (response := self._open.get(request_id)) is not None:
            response.close()

    def _fail(self, request_id: Any, text: str) -> None:
        if request_id is not None:
            error = {"code": _INTERNAL_ERROR, "message": text}
            self._write(msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "error": error}), {})


def _messages(response: httpx2.Response) -> Iterator[bytes]:
    """Return the messages in a response: one, or those of a stream as they come."""
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        for line in response.iter_lines():
            if line.startswith("data:"):
                yield line.removeprefix("data:").strip().encode()
        return
    content = response.read()
    if content:
        yield content


def _header(value: str) -> str:
    """Return a value as a header can carry it."""
    if value.isascii() and value.isprintable() and value == value.strip() and not value.startswith("=?base64?"):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="
