"""Where blobs are: turns what a person writes into the place that is used."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from langlauf.domain.errors import SettingsError
from langlauf.store.blobs.files import FileBlobs
from langlauf.store.blobs.objects import Bucket, ObjectBlobs
from langlauf.store.blobs.protocol import Blobs

SUPPORTED = "a path, file:///path or s3://bucket/prefix"
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}")
_PREFIX = re.compile(r"[A-Za-z0-9!_.'()=-]+(/[A-Za-z0-9!_.'()=-]+)*")
_SWITCHES = {"true": True, "1": True, "false": False, "0": False}
_PARAMETERS = ("endpoint", "region", "allow_http", "virtual_hosted")


def open_blobs(text: str, *, seconds: float) -> Blobs:
    """The place that LANGLAUF_BLOBS names; raises `SettingsError` where it names none. Nothing is touched yet."""
    match = _SCHEME.match(text)
    if match is None:
        return FileBlobs(Path(text).expanduser().absolute())
    scheme = match[1].lower()
    if scheme == "file":
        return FileBlobs(_folder(text))
    if scheme == "s3":
        return ObjectBlobs(read_bucket(text), seconds=seconds)
    raise SettingsError(f"LANGLAUF_BLOBS: {scheme}:// is not supported; give {SUPPORTED}")


def _folder(text: str) -> Path:
    parts = urlsplit(text)
    if parts.netloc not in ("", "localhost") or parts.query or parts.fragment or len(parts.path) <= 1:
        raise SettingsError(f"LANGLAUF_BLOBS={text!r} names no folder: write file:///path, with three slashes")
    return Path(unquote(parts.path))


def read_bucket(text: str) -> Bucket:
    """The bucket behind `s3://bucket/prefix?endpoint=…`. Credentials do not belong there, and are refused."""
    parts = urlsplit(text)
    prefix = parts.path.strip("/")
    if "@" in parts.netloc or parts.fragment or not _BUCKET.fullmatch(parts.netloc):
        raise SettingsError("LANGLAUF_BLOBS names no bucket: write s3://bucket or s3://bucket/prefix")
    if prefix and (not _PREFIX.fullmatch(prefix) or {".", ".."} & set(prefix.split("/"))):
        raise SettingsError(f"LANGLAUF_BLOBS: the prefix {prefix!r} holds something that not every object store takes")
    values = dict(_parameter(*pair) for pair in parse_qsl(parts.query, keep_blank_values=True))
    endpoint = values.get("endpoint")
    if endpoint is not None and not endpoint.startswith(("http://", "https://")):
        raise SettingsError("LANGLAUF_BLOBS: the endpoint must start with http:// or https://")
    if endpoint is not None and endpoint.startswith("http://") and not values.get("allow_http"):
        raise SettingsError("LANGLAUF_BLOBS: the endpoint is not encrypted; say allow_http=true if that is meant")
    return Bucket(name=parts.netloc, prefix=prefix or None, **values)


def _parameter(name: str, value: str) -> tuple[str, Any]:
    if name not in _PARAMETERS:
        raise SettingsError(
            f"LANGLAUF_BLOBS: {name!r} is not known; there are {', '.join(_PARAMETERS)}, "
            "and credentials come from the AWS_… variables of the environment"
        )
    if name in ("endpoint", "region"):
        if not value:
            raise SettingsError(f"LANGLAUF_BLOBS: {name} is empty")
        return name, value
    try:
        return name, _SWITCHES[value.lower()]
    except KeyError:
        raise SettingsError(f"LANGLAUF_BLOBS: {name} is true or false") from None
