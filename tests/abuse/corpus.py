"""What hostile or broken clients send: bodies, texts, ids, cursors, headers, query strings, methods."""

import base64
import gzip
import json
from typing import NamedTuple

JSON = "application/json"


class Body(NamedTuple):
    """A body of a request, with how it is announced."""

    content: bytes
    media_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


def _nested(levels: int, inside: bytes = b"1") -> bytes:
    return b'{"a":' * levels + inside + b"}" * levels


def _value(text: bytes) -> bytes:
    return b'{"query": ' + text + b"}"


#: Nothing of these is accepted, by no operation that reads a body.
BODIES: dict[str, Body] = {
    "no JSON": Body(b"hello"),
    "a number": Body(b"1"),
    "null": Body(b"null"),
    "a list": Body(b"[]"),
    "a text": Body(b'"query"'),
    "half": Body(b'{"query": "x'),
    "two values": Body(b'{"query": "x"} {}'),
    "trailing comma": Body(b'{"query": "x",}'),
    "a comment": Body(b'{"query": "x" /* why */}'),
    "single quotes": Body(b"{'query': 'x'}"),
    "the same name twice": Body(b'{"query": "x", "query": "y"}'),
    "the same name twice, once escaped": Body(b'{"query": "x", "qu\\u0065ry": "y"}'),
    "BOM": Body(b'\xef\xbb\xbf{"query": "x"}'),
    "UTF-16": Body('{"query": "x"}'.encode("utf-16")),
    "UTF-32": Body('{"query": "x"}'.encode("utf-32")),
    "Latin-1": Body('{"query": "ä"}'.encode("latin-1")),
    "overlong UTF-8": Body(_value(b'"\xc0\xaf"')),
    "half of a pair in UTF-8": Body(_value(b'"\xed\xa0\x80"')),
    "half of a pair, escaped": Body(_value(b'"\\ud800"')),
    "a pair the wrong way round": Body(_value(b'"\\udc00\\ud800"')),
    "NUL": Body(_value(b'"a\x00b"')),
    "NUL, escaped": Body(_value(b'"a\\u0000b"')),
    "NUL in a name": Body(b'{"a\\u0000": 1}'),
    "a line break in a text": Body(_value(b'"a\nb"')),
    "NaN": Body(_value(b"NaN")),
    "Infinity": Body(_value(b"-Infinity")),
    "1e400": Body(_value(b"1e400")),
    "2**63": Body(_value(b"9223372036854775808")),
    "2**64": Body(_value(b"18446744073709551616")),
    "10**309": Body(_value(b"1" + b"0" * 309)),
    "many digits": Body(_value(b"9" * 100_000)),
    "many digits after the point": Body(_value(b"0." + b"9" * 100_000)),
    "hexadecimal": Body(_value(b"0x10")),
    "a leading zero": Body(_value(b"01")),
    "65 levels": Body(_nested(65)),
    "100,000 levels": Body(_nested(100_000)),
    "100,000 lists": Body(_value(b"[" * 100_000 + b"]" * 100_000)),
    "100,000 open lists": Body(b"[" * 100_000),
    "many names": Body(json.dumps({f"n{number}": number for number in range(20_000)}).encode()),
    "a long name": Body(b'{"' + b"n" * 200_000 + b'": 1}'),
    "a proto": Body(b'{"__proto__": {"x": 1}, "constructor": {"y": 1}}'),
    "fields of the store": Body(
        b'{"query": "x", "org_id": "org-b", "status": "completed", "attempt": 9, "result_id": "y", "job_id": "z"}'
    ),
    "extremes": Body(b'{"query": "x", "options": {"async_mode": {"priority_class": "' + b"p" * 5_000 + b'"}}}'),
    "a bomb": Body(gzip.compress(b" " * 10_000_000), headers=(("Content-Encoding", "gzip"),)),
    "deflated": Body(b"x", headers=(("Content-Encoding", "deflate, br"),)),
    "a form": Body(b"query=x", "application/x-www-form-urlencoded"),
    "parts": Body(b"--b\r\n\r\n{}\r\n--b--", "multipart/form-data; boundary=b"),
    "plain text": Body(b'{"query": "x"}', "text/plain"),
    "XML": Body(b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><x>&e;</x>', "application/xml"),
    "JSON in UTF-7": Body(b'{"query": "x"}', "application/json; charset=utf-7"),
    "JSON in two character sets": Body(b'{"query": "x"}', "application/json; charset=utf-8; charset=utf-16"),
    "almost JSON": Body(b'{"query": "x"}', "application/jsonp"),
    "a type that is none": Body(b'{"query": "x"}', ";;;=,"),
}

#: What stands in ids, queries and, where it can, in headers.
TEXTS: tuple[str, ...] = (
    "",
    " ",
    "'",
    "' OR '1'='1",
    "1; DROP TABLE jobs;--",
    '" OR ""="',
    "%",
    "_",
    "%%%_%",
    "\\",
    "{0}{1.__class__}",
    "${jndi:ldap://x/y}",
    "{{7*7}}",
    "%s%n%x",
    "$(id)",
    "`id`",
    "| id",
    "../../etc/passwd",
    "..\\..\\windows",
    "/etc/passwd",
    "file:///etc/passwd",
    "http://127.0.0.1/",
    "<script>alert(1)</script>",
    "a\r\nSet-Cookie: x=1",
    "a\nb",
    "\x1b[31mred",
    "\x00",
    "a\x00b",
    "\x7f",
    "\u2028",
    "\u202e",
    "\ufeff",
    "ä",
    "🎉",
    "İ",
    "ﬀ",
    "e\u0301" * 50,
    "null",
    "undefined",
    "NaN",
    "-1",
    "0",
    "-0",
    "1e3",
    "1.0",
    "+1",
    " 1",
    "0x1",
    "٣",
    "9" * 30,
    str(2**63),
    "true",
    "[]",
    "{}",
    "*",
    "a" * 255,
    "a" * 257,
    "a" * 4_000,
    "01a1e234-7c67-7f28-a5c8-4bd07254b558",
    "00000000-0000-0000-0000-000000000000",
)

#: Written as they are into a path.
RAW_IDS: tuple[str, ...] = (
    "%2e%2e",
    "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "..",
    ".",
    "...",
    "%00",
    "a%00b",
    "%2f",
    "%5c",
    "%c0%ae%c0%ae",
    "%c0%af",
    "%ff%fe",
    "%ed%a0%80",
    "%",
    "%2",
    "%zz",
    "%25%32%65",
    "%u002e",
    "a;b=c",
    "a//b",
    "//",
    "%0d%0aX-Injected:%201",
    "%E2%80%AE",
    "x" * 8_000,
    "%41" * 2_000,
)


def _cursor(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode("utf-8", "surrogatepass")).decode().rstrip("=")


CURSORS: tuple[str, ...] = (
    *map(
        _cursor,
        (
            "",
            ":",
            "1",
            "1:",
            ":x",
            "-1:x",
            "1:x:y",
            "9" * 18 + ":x",
            "9" * 19 + ":x",
            "9" * 200 + ":x",
            "1.5:x",
            "NaN:x",
            "٣:x",
            "1:" + "x" * 150,
            "1:a\x00b",
            "1:' OR 1=1",
            "1:\ud800",
            "1:\u2028",
            " 1:x",
            "1:x\n",
        ),
    ),
    "====",
    "a",
    "!!!!",
    "YQ==YQ==",
    "_-_-",
    base64.b64encode(b"\xff\xfe:\xff").decode(),
)

#: Values of headers, in Latin-1.
HEADER_VALUES: tuple[str, ...] = (
    "",
    ",",
    ";",
    "=",
    '"',
    '""',
    '"a',
    "a, b, c",
    "*",
    "'; DROP TABLE jobs;--",
    "%00",
    "\x80\xff",
    "ä",
    "9" * 40,
    "-1",
    "NaN",
    "x" * 8_000,
    "a b\tc",
    "{}",
    "W/",
    'W/"',
    'W/"x", "y", *',
)

HEADERS: tuple[tuple[str, str], ...] = (
    *(("If-None-Match", text) for text in ('W/"1-waiting"', '"', "W/W/", "*,*", '"\\"', "," * 2_000)),
    *(("If-Match", text) for text in ('"x"', "*")),
    *(("Prefer", text) for text in ("wait=", "wait=-1", "wait=1e9", "respond-async; x=", "=,;", "wait=9" + "9" * 400)),
    *(("traceparent", text) for text in ("00", "00-" + "0" * 32 + "-" + "0" * 16 + "-00", "ff-" + "g" * 50, "-" * 60)),
    *(("tracestate", text) for text in ("=", "a=" + "b" * 5_000, ",".join(f"k{n}=v" for n in range(60)))),
    *(("X-Request-Id", text) for text in ("x" * 129, "a b", "ä", "<script>", "a%0d%0ab")),
    *(("Accept", text) for text in ("", "*/*;q=2", "text/html;q=x", "a/b/c", "text/event-stream,*/*;q=0", "x" * 3_000)),
    *(("Accept-Language", text) for text in ("", "de;q=", "*-*", "x" * 3_000)),
    *(("Range", text) for text in ("bytes=0-0", "bytes=-1", "bytes=" + "0-1," * 500, "lines=1-2")),
    *(("X-HTTP-Method-Override", text) for text in ("DELETE", "POST")),
    *(("X-Method-Override", text) for text in ("PUT", "PATCH")),
    *(("X-Forwarded-For", text) for text in ("127.0.0.1", "' OR 1=1")),
    ("X-Forwarded-Host", "evil.example"),
    ("X-Original-URL", "/metrics"),
    ("Forwarded", "for=127.0.0.1;host=evil.example"),
    ("Cookie", "langlauf=" + "x" * 4_000),
    ("Cookie", "=;=;;"),
    ("Origin", "null"),
    ("Origin", "https://evil.example"),
    ("Last-Event-ID", "-1"),
    ("Last-Event-ID", "\xff"),
    ("Authorization", "Bearer"),
    ("Authorization", "Basic !!!"),
    ("Authorization", "Bearer " + "x" * 8_000),
    ("X-API-Key", "ä"),
    ("Content-Type", "x" * 4_000),
    ("Upgrade-Insecure-Requests", "1"),
    ("TE", "trailers"),
    ("Expect", "200-maybe"),
)

METHODS = ("TRACE", "CONNECT", "PATCH", "PUT", "DELETE", "OPTIONS", "HEAD", "PROPFIND", "PURGE", "LINK", "GET", "POST")

QUERIES: tuple[str, ...] = (
    "?",
    "&&&&",
    "=",
    "=x",
    "limit",
    "limit=1&limit=2",
    "%00=1",
    "%ff=%fe",
    "a=%c0%af",
    "limit=%31%30%30%30%30",
    "a[]=1&a[0]=2",
    "__proto__=1",
    "x=" + "y" * 7_000,
    "&".join(f"p{number}=1" for number in range(900)),
    ";".join("a" * 3 for _ in range(300)),
    "a=1#b",
    "%",
    "%zz=%zz",
    "\u00e4=1",
)
