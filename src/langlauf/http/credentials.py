"""What a request shows to prove who calls. Keys come in headers, never in an address."""

from starlette.requests import Request

from langlauf.http.problems import Problem, bad_request

_CHALLENGE = 'Bearer realm="langlauf"'


def unauthorized() -> Problem:
    """The one 401: nothing shown, malformed, unknown, revoked, expired, all the same to the byte."""
    return Problem(
        401,
        "unauthorized",
        "Show a valid key as Authorization: Bearer <key>.",
        headers={"WWW-Authenticate": _CHALLENGE},
    )


def forbidden(message: str) -> Problem:
    """403: who calls is known, and may not."""
    return Problem(403, "forbidden", message)


def secret_in(request: Request) -> bytes | None:
    """The key in `Authorization: Bearer` or `X-API-Key`, byte by byte as it was sent."""
    line, alias = _once(request, "Authorization"), _once(request, "X-API-Key")
    scheme, _, bearer = (line or "").partition(" ")
    # Other schemes are left to whatever stands before this server.
    shown = bearer.strip() if scheme.lower() == "bearer" else None
    alias = alias.strip() if alias is not None else None
    if shown is not None and alias is not None and shown != alias:
        raise bad_request("Authorization and X-API-Key show different keys; send one of them.", "Authorization")
    found = alias if shown is None else shown
    return None if found is None else found.encode("latin-1")


def _once(request: Request, name: str) -> str | None:
    values = request.headers.getlist(name)
    if len(values) > 1:
        raise bad_request(f"{name} is given more than once.", name)
    return values[0] if values else None
