"""Credentials of a request: keys in headers, never in a URL.

A token for one job may also come in the query string, because a browser's `EventSource` cannot send headers. It is
removed from the request before any other code sees it.
"""

from urllib.parse import unquote_plus

from starlette.requests import Request

from langlauf.auth.keyring import Authenticator
from langlauf.auth.tokens import PREFIX, JobTokens
from langlauf.domain.access import OPEN_ISSUER, Grant
from langlauf.problems import bad_request

QUERY_TOKEN = "access_token"  # noqa: S105 - a parameter name
_TOKEN = PREFIX.encode()


async def grant_of(
    access: Authenticator,
    tokens: JobTokens,
    shown: bytes | None,
    in_address: str | None,
    *,
    store_may_be_away: bool = False,
) -> Grant | None:
    """Return the grant of the credential in a header or in the query string; None where it is not valid."""
    if not access.fresh:
        await (access.refresh_if_possible() if store_may_be_away else access.refresh())
    if in_address is not None:
        if shown is not None and shown != in_address.encode():
            raise bad_request("access_token and a header have different credentials; send one of them.", QUERY_TOKEN)
        return await tokens.grant(in_address)
    if shown is not None and shown.startswith(_TOKEN):
        return await tokens.grant(shown.decode("ascii", "replace"))
    return access.by_issuer(OPEN_ISSUER) or await access.by_secret(shown or b"")


def pop_query_token(request: Request) -> str | None:
    """Remove the token from the query string and return it, so that no later code can log, link or refuse it."""
    if not request.scope["query_string"]:
        return None
    parts = request.scope["query_string"].decode("latin-1").split("&")
    pairs = [(unquote_plus(part.partition("=")[0]), part) for part in parts]
    found = [unquote_plus(part.partition("=")[2]) for name, part in pairs if name == QUERY_TOKEN]
    if not found:
        return None
    request.scope["query_string"] = "&".join(part for name, part in pairs if name != QUERY_TOKEN).encode("latin-1")
    if len(found) > 1:
        raise bad_request("access_token is given more than once.", QUERY_TOKEN)
    return found[0]


def secret_in_headers(request: Request) -> bytes | None:
    """Return the key in `Authorization: Bearer` or `X-API-Key`, byte by byte as it was sent."""
    line, alias = _once(request, "Authorization"), _once(request, "X-API-Key")
    scheme, _, bearer = (line or "").partition(" ")
    # Other schemes belong to a proxy in front of this server.
    shown = bearer.strip() if scheme.lower() == "bearer" else None
    alias = alias.strip() if alias is not None else None
    if shown is not None and alias is not None and shown != alias:
        raise bad_request("Authorization and X-API-Key have different keys; send one of them.", "Authorization")
    found = alias if shown is None else shown
    return None if found is None else found.encode("latin-1")


def _once(request: Request, name: str) -> str | None:
    values = request.headers.getlist(name)
    if len(values) > 1:
        raise bad_request(f"{name} is given more than once.", name)
    return values[0] if values else None
