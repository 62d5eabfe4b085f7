"""Parsers of setting values: each takes the text of a setting, and raises `ValueError` with what to give instead."""

import re
from collections.abc import Callable
from ipaddress import ip_network

from langlauf.domain.mail import read_mail_address
from langlauf.domain.ssrf import AllowedRange, Network
from langlauf.domain.webhook import read_secret

LONGEST_DURATION = 100 * 365 * 86_400.0
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_DURATION = re.compile(r"^([0-9]+(?:\.[0-9]+)?)\s*([smhd]?)$")
_EXECUTOR = re.compile(r"(?:dask|tls)://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\*?|\*")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[a-z0-9.:\[\]-]+")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_ORG = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_SWITCH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
_MOST_SECRETS = 2
_LARGEST_PORT = 65_535
_WHOLE_PERCENT = 100


def parse_duration(text: str, longest: float = LONGEST_DURATION) -> float:
    """Return the seconds of `90`, `30m`, `24h` or `7d`."""
    match = _DURATION.match(text.strip())
    if match is None:
        raise ValueError("give seconds or a value like 30m, 24h, 7d")
    seconds = float(match[1]) * _UNITS[match[2]]
    if seconds > longest:
        raise ValueError("is longer than a hundred years")
    return seconds


def read_positive_duration(text: str) -> float:
    """Return the seconds of a duration that is longer than 0."""
    seconds = parse_duration(text)
    if seconds <= 0:
        raise ValueError("must be longer than 0")
    return seconds


def read_durations(text: str) -> tuple[float, ...]:
    """Return the seconds of a comma-separated list of durations."""
    return tuple(read_positive_duration(word) for word in read_list(text))


def whole_number(lowest: int) -> Callable[[str], int]:
    """Return a parser of whole numbers from `lowest` on."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise ValueError("give a whole number") from None
        if number < lowest:
            raise ValueError(f"must be {lowest} or more")
        return number

    return read


def read_percent(text: str) -> int:
    """Return a whole number from 1 to 100."""
    number = whole_number(1)(text)
    if number > _WHOLE_PERCENT:
        raise ValueError("must be 100 or less")
    return number


def read_port(text: str) -> int:
    """Return a port; 0 means any free one."""
    number = whole_number(0)(text)
    if number > _LARGEST_PORT:
        raise ValueError(f"must be {_LARGEST_PORT} or less")
    return number


def read_text(text: str) -> str:
    """Return a text that is not empty."""
    if not text:
        raise ValueError("is empty")
    return text


def read_switch(text: str) -> bool:
    """Return whether a switch is on: on or off, also 1, true, yes, 0, false, no."""
    try:
        return _SWITCH[text.strip().lower()]
    except KeyError:
        raise ValueError("give on or off") from None


def one_of(*choices: str) -> Callable[[str], str]:
    """Return a parser that accepts these words only."""

    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(f"give one of {', '.join(choices)}")
        return text

    return read


def read_list(text: str) -> tuple[str, ...]:
    """Return the words of a comma-separated list."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def read_variables(text: str) -> tuple[str, ...]:
    """Return names of environment variables; a `*` at the end matches any rest."""
    names = read_list(text)
    for name in names:
        if not _VARIABLE.fullmatch(name):
            raise ValueError(
                f"{name!r} is not the name of a variable; give names such as DATABASE_URL or MY_*, with commas"
            )
    return names


def read_web_url(text: str) -> str:
    """Return an http or https URL."""
    if not text.startswith(("http://", "https://")):
        raise ValueError("must start with http:// or https://")
    return text


def read_executor(text: str) -> str:
    """Return where chunks are computed: `local`, or the URL of a Dask scheduler."""
    match = _EXECUTOR.fullmatch(text)
    if text != "local" and (match is None or not 0 < int(match[1]) <= _LARGEST_PORT):
        raise ValueError("give local, dask://host:port, or tls://host:port for a Dask scheduler that uses TLS")
    return text


def read_origins(text: str) -> tuple[str, ...]:
    """Return origins as browsers send them: a trailing slash or a capital letter would never match."""
    origins = read_list(text)
    for origin in origins:
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            raise ValueError(
                f"{origin!r} is not an origin; give scheme, host and port only, such as https://ui.example, or *"
            )
    return origins


def read_networks(text: str) -> tuple[Network, ...]:
    """Return address ranges. A single address is a range of one."""
    try:
        return tuple(ip_network(word) for word in read_list(text))
    except ValueError as error:
        raise ValueError(f"{error}; give ranges such as 10.1.0.0/16, with commas between") from None


def read_allowed_ranges(text: str) -> tuple[AllowedRange, ...]:
    """Return address ranges, each for all orgs or, after `org=`, for one."""
    return tuple(map(_allowed_range, read_list(text)))


def _allowed_range(word: str) -> AllowedRange:
    before, named, network = word.rpartition("=")
    org_id = before.strip() if named else None
    if org_id is not None and not _ORG.fullmatch(org_id):
        raise ValueError(f"{org_id!r} is not an org; give ranges such as 10.1.0.0/16 or acme=10.2.0.0/16")
    try:
        return AllowedRange(org_id, ip_network(network.strip()))
    except ValueError as error:
        raise ValueError(f"{error}; give ranges such as 10.1.0.0/16 or acme=10.2.0.0/16, with commas between") from None


def read_header_name(text: str) -> str:
    """Return the name of an HTTP header."""
    if not _HEADER_NAME.fullmatch(text):
        raise ValueError("give the name of a header, such as X-Forwarded-For")
    return text


def read_mail_domains(text: str) -> tuple[str, ...]:
    """Return domains; `*.` before one means all below it."""
    domains = tuple(word.lower() for word in read_list(text))
    for domain in domains:
        try:
            read_mail_address(f"x@{domain.removeprefix('*.')}")
        except ValueError:
            raise ValueError(f"{domain!r} is not a domain; give some such as example.org or *.example.org") from None
    return domains


def read_webhook_secrets(text: str) -> tuple[str, ...]:
    """Return the secret that signs, and the previous one if it is given."""
    secrets = read_list(text)
    for secret in secrets:
        read_secret(secret)
    if not 1 <= len(secrets) <= _MOST_SECRETS:
        raise ValueError("give one secret, or two with a comma between while receivers switch over")
    return secrets
