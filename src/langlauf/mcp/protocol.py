"""The Model Context Protocol on the wire: versions, names, error codes, JSON-RPC messages, and reading a request."""

import base64
import binascii
from typing import Any

import msgspec
from starlette.requests import Request

from langlauf.domain.provenance import Trace, read_trace
from langlauf.domain.redact import clean_text
from langlauf.domain.text import escaped
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


# -- requests ----------------------------------------------------------------------------------------------------------

VERSION_HEADER, METHOD_HEADER, NAME_HEADER = "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"
_TASK_ID = "taskId"
#: The parameter that `Mcp-Name` repeats, by method.
_NAMED = {
    "tools/call": "name",
    "resources/read": "uri",
    "tasks/get": _TASK_ID,
    "tasks/update": _TASK_ID,
    "tasks/cancel": _TASK_ID,
}
_ENCODED_START, _ENCODED_END = "=?base64?", "?="
_LONGEST_NAME, _LONGEST_VERSION = 60, 30
#: What a job records of a client that does not say who it is.
UNKNOWN_CLIENT = "unknown"
_LONGEST_ID = 256


class RpcRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a client."""

    id: RequestId
    method: str
    params: dict[str, Any]
    #: whether it follows a revision with a handshake
    legacy: bool
    #: name and version of the client, cleaned
    client: str
    #: whether the client follows tasks
    tasks: bool
    progress_token: RequestId | None
    trace: Trace | None

    def text(self, name: str) -> str:
        """Return a parameter that must be a text."""
        value = self.params.get(name)
        if not isinstance(value, str):
            raise invalid_params(f"params.{name} must be a text.")
        return value

    def members(self, name: str) -> dict[str, Any]:
        """Return a parameter that must be an object; without it an empty one."""
        value = self.params.get(name, {})
        if not isinstance(value, dict):
            raise invalid_params(f"params.{name} must be an object.")
        return value


def id_of(body: Any) -> RequestId | None:
    """Return the id of a request, where it has a usable one, so that an error can name it."""
    found = body.get("id") if isinstance(body, dict) else None
    return found if _is_id(found) else None


def _is_id(value: Any) -> bool:
    return (isinstance(value, str) and len(value) <= _LONGEST_ID) or type(value) is int


def is_legacy(request: Request, body: Any) -> bool:
    """Whether a request follows a revision with a handshake, or none: then it carries no version of its own."""
    if VERSION_KEY in _meta(body):
        return False
    return request.headers.get(VERSION_HEADER) in (None, *LEGACY)


def _meta(body: Any) -> dict[str, Any]:
    params = body.get("params") if isinstance(body, dict) else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta if isinstance(meta, dict) else {}


def read_request(request: Request, body: Any) -> RpcRequest | None:
    """Return the request in a body, checked against its headers; None for a notification."""
    method, params = _envelope(body)
    if "id" not in body:
        if not method.startswith("notifications/"):
            raise RpcError(INVALID_REQUEST, f"{method[:_LONGEST_NAME]!r} needs an id: it is not a notification.")
        return None
    if not _is_id(body["id"]):
        raise RpcError(INVALID_REQUEST, "id must be a short text or a whole number.")
    legacy, meta = is_legacy(request, body), _meta(body)
    if not legacy:
        _check_version(request, params, meta)
        _check_header(request, METHOD_HEADER, method)
    capabilities = meta.get(CAPABILITIES_KEY)
    extensions = capabilities.get("extensions") if isinstance(capabilities, dict) else None
    token = meta.get("progressToken")
    return RpcRequest(
        id=body["id"],
        method=method,
        params=params,
        legacy=legacy,
        client=_client_name(meta.get(CLIENT_KEY)),
        tasks=not legacy and isinstance(extensions, dict) and isinstance(extensions.get(TASKS_EXTENSION), dict),
        progress_token=token if _is_id(token) else None,
        trace=_trace(meta),
    )


def _envelope(body: Any) -> tuple[str, dict[str, Any]]:
    """Return method and parameters of a single JSON-RPC request or notification."""
    if isinstance(body, list):
        raise RpcError(INVALID_REQUEST, "Send one request per body: there are no batches.")
    if not isinstance(body, dict) or body.get("jsonrpc") != "2.0" or not isinstance(body.get("method"), str):
        raise RpcError(INVALID_REQUEST, 'Send a JSON-RPC request: an object with "jsonrpc": "2.0", an id and a method.')
    params = body.get("params", {})
    if not isinstance(params, dict) or not isinstance(params.get("_meta", {}), dict):
        raise RpcError(INVALID_REQUEST, "params and params._meta must be objects.")
    return body["method"], params


def _check_version(request: Request, params: dict[str, Any], meta: dict[str, Any]) -> None:
    version, header = meta.get(VERSION_KEY), request.headers.get(VERSION_HEADER, MODERN)
    if version is None and header != MODERN:
        raise _unsupported(header)
    if not isinstance(version, str) or not isinstance(meta.get(CAPABILITIES_KEY), dict):
        missing = CAPABILITIES_KEY if isinstance(version, str) else VERSION_KEY
        where = f"params._meta[{missing!r}]" if "_meta" in params else "params._meta"
        raise invalid_params(f"{where} is missing: every request carries its version and capabilities there.")
    _check_header(request, VERSION_HEADER, version)
    if version != MODERN:
        raise _unsupported(version)


def _unsupported(version: str) -> RpcError:
    data = {"supported": list(SUPPORTED), "requested": version}
    return RpcError(UNSUPPORTED_VERSION, "This server does not know that version of the protocol.", data)


def check_name(request: Request, rpc: RpcRequest) -> None:
    """Compare `Mcp-Name` with the parameter that it repeats."""
    parameter = _NAMED.get(rpc.method)
    if parameter is None or rpc.legacy:
        return
    # Clients in the field leave it out for tasks, although the extension asks for it. A wrong one is refused.
    if parameter != _TASK_ID or NAME_HEADER in request.headers:
        _check_header(request, NAME_HEADER, rpc.text(parameter), encoded=True)


def _check_header(request: Request, name: str, expected: str, *, encoded: bool = False) -> None:
    values = request.headers.getlist(name)
    if len(values) != 1:
        raise RpcError(HEADER_MISMATCH, f"The header {name} must be there once, and repeat what the body says.")
    if (_decoded(values[0]) if encoded else values[0]) != expected:
        raise RpcError(HEADER_MISMATCH, f"The header {name} differs from the body.")


def _decoded(value: str) -> str | None:
    """Return a header value, decoded where it is marked as base64; None where it cannot be decoded."""
    if not (value.startswith(_ENCODED_START) and value.endswith(_ENCODED_END)):
        return value if value.isascii() and value.isprintable() else None
    try:
        return base64.b64decode(value[len(_ENCODED_START) : -len(_ENCODED_END)], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def _client_name(info: Any) -> str:
    """Return name and version of a client in one short line, safe to show."""
    if not isinstance(info, dict):
        return UNKNOWN_CLIENT
    words = [_clean(info.get("name"), _LONGEST_NAME), _clean(info.get("version"), _LONGEST_VERSION)]
    return " ".join(filter(None, words)) or UNKNOWN_CLIENT


def _clean(value: Any, longest: int) -> str:
    return escaped(clean_text(value.strip(), longest))[:longest].strip() if isinstance(value, str) else ""


def _trace(meta: dict[str, Any]) -> Trace | None:
    parent, state = meta.get("traceparent"), meta.get("tracestate")
    if not isinstance(parent, str):
        return None
    return read_trace([parent], [state] if isinstance(state, str) else [])
