"""The URL of a database: what the driver understands of it, and what is meant for this program."""

import getpass
import os
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from langlauf.domain.errors import SettingsError

_POOLER = "pooler"
_SESSION = "session"


class Address(NamedTuple):
    """Where to connect to, and whether a pooler between here and there keeps a connection for each of ours."""

    dsn: str
    through_pooler: bool

    def __repr__(self) -> str:
        return "Address(…)"  # it may hold a password


def read_address(url: str) -> Address:
    """Takes `pooler=session` out of a URL; the rest is the driver's."""
    parts = urlsplit(url)
    asked = parse_qsl(parts.query, keep_blank_values=True)
    poolers = [value for name, value in asked if name == _POOLER]
    if any(value != _SESSION for value in poolers):
        raise SettingsError(
            f"in the URL of the database, {_POOLER}= can only be {_SESSION}: "
            "a pooler must keep one connection to the server for each of ours"
        )
    rest = [(name, value) for name, value in asked if name != _POOLER]
    return Address(urlunsplit(parts._replace(query=urlencode(rest))) if poolers else url, bool(poolers))


def login_name(url: str) -> str:
    """Who connects: as the URL says, else as the environment of PostgreSQL's programs does, else as this user."""
    parts = urlsplit(url)
    asked = dict(parse_qsl(parts.query))
    return unquote(parts.username or "") or asked.get("user") or os.environ.get("PGUSER") or getpass.getuser()
