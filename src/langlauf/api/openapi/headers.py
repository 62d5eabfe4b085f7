"""Every response header of the API, once; and which of them an answer always or sometimes has."""

from langlauf.api.openapi.shapes import Document

_TEXT = {"type": "string"}
_SECONDS = {"type": "integer", "minimum": 0}
_HEADERS: dict[str, tuple[Document, str]] = {
    "X-Request-Id": (
        {"type": "string", "pattern": "^[A-Za-z0-9_.:-]{1,128}$"},
        "The id of the request: the caller's own where it sent a usable one. It finds the request in the log.",
    ),
    "X-Content-Type-Options": ({"const": "nosniff"}, "The content type is meant."),
    "Cache-Control": (_TEXT, "Tenant data is `no-store` or `private, no-cache`; an error is `no-store`."),
    "Vary": (_TEXT, "What selects the answer."),
    "Location": ({"type": "string", "format": "uri-reference"}, "The job."),
    "Content-Location": ({"type": "string", "format": "uri-reference"}, "The job that the answer tells of."),
    "Retry-After": (_SECONDS, "After so many seconds it is worth asking again."),
    "ETag": ({"type": "string", "pattern": '^W/"[^"]+"$'}, "Changes when the answer does; for `If-None-Match`."),
    "Link": (_TEXT, 'The next page, as `<…>; rel="next"`; not there on the last one.'),
    "Preference-Applied": (_TEXT, "What of `Prefer` was honoured; only there where something was."),
    "Idempotent-Replayed": ({"const": "true"}, "The job was made by an earlier request with the same key."),
    "Allow": (_TEXT, "The methods that this address knows."),
    "WWW-Authenticate": (_TEXT, "How to show a key."),
    "Accept": (_TEXT, "The media type that would have been taken."),
    "Accept-Encoding": (_TEXT, "The content coding that would have been taken."),
    "RateLimit": (_TEXT, "What is left: `r` requests within `t` seconds; only there where a rate limit is set."),
    "RateLimit-Policy": (_TEXT, "The limit: `q` requests within `w` seconds; only there where one is set."),
}
#: On every response, whatever it is.
ALWAYS = ("X-Request-Id", "X-Content-Type-Options")
#: On whatever depends on who asks.
GUARDED = ("Cache-Control", "Vary")


def header_components() -> Document:
    """All headers: `Name` where it may be there, `Name.always` where it must."""
    made: Document = {}
    for name, (schema, text) in _HEADERS.items():
        made[name] = {"description": text, "schema": schema}
        made[f"{name}.always"] = {"description": text, "required": True, "schema": schema}
    return made


def headers(*always: str, maybe: tuple[str, ...] = ()) -> Document:
    """References for one answer."""
    names = {name: f"{name}.always" for name in (*ALWAYS, *always)} | {name: name for name in maybe}
    return {name: {"$ref": f"#/components/headers/{component}"} for name, component in names.items()}
