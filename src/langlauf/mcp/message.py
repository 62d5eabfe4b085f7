"""Reading a request: JSON-RPC in the body, its copy in the headers, and what its client can do."""

import base64
import binascii
from typing import Any

import msgspec
from starlette.requests import Request

from langlauf.domain.provenance import Trace, read_trace
from langlauf.domain.redact import clean_text
from langlauf.domain.text import escaped
from langlauf.mcp.protocol import (
    CAPABILITIES_KEY,
    CLIENT_KEY,
    HEADER_MISMATCH,
    INVALID_REQUEST,
    LEGACY,
    MODERN,
    SUPPORTED,
    TASKS_EXTENSION,
    UNSUPPORTED_VERSION,
    VERSION_KEY,
    RequestId,
    RpcError,
    invalid_params,
)

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
