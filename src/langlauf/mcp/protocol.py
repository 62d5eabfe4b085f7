"""The Model Context Protocol on the wire: versions, names, error codes, and JSON-RPC messages as bytes."""

from typing import Any

import msgspec

from langlauf.version import VERSION

#: The revision in which every request carries its version and the capabilities of its client.
MODERN = "2026-07-28"
#: Revisions with a handshake. Here it creates no session: later requests need nothing from it.
LEGACY = ("2025-11-25", "2025-06-18")
SUPPORTED = (MODERN, *LEGACY)
TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
CLIENT_KEY = "io.modelcontextprotocol/clientInfo"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"
#: What this server adds to tasks and snapshots, for programs.
JOB_KEY, SNAPSHOT_KEY = "io.langlauf/job", "io.langlauf/snapshot"
SERVER_INFO = {"name": "langlauf", "title": "Langlauf", "version": VERSION}

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION = -32020, -32021, -32022
#: The code that earlier revisions have for an unknown resource.
LEGACY_RESOURCE_NOT_FOUND = -32002
_STATUSES = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    METHOD_NOT_FOUND: 404,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    MISSING_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
}
#: To clients with a handshake, 404 means that a session has ended; errors of requests come with 200.
_LEGACY_STATUSES = {PARSE_ERROR: 400, INVALID_REQUEST: 400}
RequestId = str | int
_encoder = msgspec.json.Encoder()
_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")


class RpcError(Exception):
    """A JSON-RPC error. `status` is the HTTP status, by default that of its code."""

    def __init__(self, code: int, message: str, data: Any = None, status: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.status = status

    def http_status(self, *, legacy: bool) -> int:
        """Return the HTTP status of the response."""
        return self.status or (_LEGACY_STATUSES if legacy else _STATUSES).get(self.code, 200)

    def member(self) -> dict[str, Any]:
        """Return the member `error` of a response."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        return error if self.data is None else {**error, "data": self.data}


def invalid_params(message: str, data: Any = None) -> RpcError:
    """Return the error for parameters that are missing, malformed or name something unknown."""
    return RpcError(INVALID_PARAMS, message, data)


def tasks_required() -> RpcError:
    """Return the error for a client that needs tasks and does not have the extension in its capabilities."""
    message = f"This needs the extension {TASKS_EXTENSION} in the client's capabilities, in _meta of the request."
    return RpcError(MISSING_CAPABILITY, message, {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}})


#: Members of results that revisions with a handshake do not know.
_MODERN_MEMBERS = ("resultType", "ttlMs", "cacheScope", "_meta")


def result_message(request_id: RequestId, result: dict[str, Any], *, legacy: bool = False) -> bytes:
    """Return a response with a result, and with the name of this server."""
    if legacy:
        result = {name: value for name, value in result.items() if name not in _MODERN_MEMBERS}
    else:
        meta = {SERVER_KEY: SERVER_INFO, **result.get("_meta", {})}
        result = {"resultType": "complete", **result, "_meta": meta}
    return _encoder.encode({"jsonrpc": "2.0", "id": request_id, "result": result})


def error_message(request_id: RequestId | None, error: RpcError) -> bytes:
    """Return a response with an error; without an id where the request has none that can be read."""
    known = {} if request_id is None else {"id": request_id}
    return _encoder.encode({"jsonrpc": "2.0", **known, "error": error.member()})


def notification_message(method: str, params: dict[str, Any]) -> bytes:
    """Return a notification."""
    return _encoder.encode({"jsonrpc": "2.0", "method": method, "params": params})


def as_event(message: bytes) -> bytes:
    """Return a message as a server-sent event. In JSON, line breaks only occur between values: a space will do."""
    return b"event: message\ndata: %s\n\n" % message.translate(_ONE_LINE)
