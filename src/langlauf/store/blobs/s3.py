"""Blobs in an S3-compatible object store, without a thread per request."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from langlauf.domain.errors import SettingsError, StoreUnavailable
from langlauf.store.blobs.protocol import KEYS_PER_PAGE, Listed

if TYPE_CHECKING:
    from obstore.store import S3Config, S3Store

_CONNECT_SECONDS = 5.0
_CHECK_SECONDS = 10.0
_PROBE = "probe"
_MISSING = "LANGLAUF_BLOBS names an object store, and what speaks to one is not installed: pip install 'langlauf[s3]'"

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}")
_PREFIX = re.compile(r"[A-Za-z0-9!_.'()=-]+(/[A-Za-z0-9!_.'()=-]+)*")
_SWITCHES = {"true": True, "1": True, "false": False, "0": False}
_PARAMETERS = ("endpoint", "region", "allow_http", "virtual_hosted")


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a bucket. A field that is None, and credentials always, come from the AWS_… variables."""

    name: str
    prefix: str | None = None
    endpoint: str | None = None
    region: str | None = None
    allow_http: bool | None = None
    virtual_hosted: bool | None = None


def read_bucket(text: str) -> Bucket:
    """Return the bucket behind `s3://bucket/prefix?endpoint=…`. Credentials do not belong there, and are refused."""
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


class ObjectBlobs:
    """One object per blob, written in one request: an aborted one leaves nothing behind."""

    def __init__(self, bucket: Bucket, *, seconds: float) -> None:
        self._bucket = bucket
        self._store = _connect(bucket, seconds)

    async def put(self, key: str, data: bytes | memoryview) -> None:
        with self._told():
            await self._store.put_async(key, data, use_multipart=False)

    async def get(self, key: str, *, at_most: int) -> bytes | None:
        with self._told():
            try:
                found = await self._store.get_async(key)
            except FileNotFoundError:
                return None
            if found.meta["size"] > at_most:
                return bytes(at_most + 1)
            return bytes(await found.bytes_async())

    async def part(self, key: str, *, start: int, length: int) -> bytes | None:
        with self._told():
            try:
                return bytes(await self._store.get_range_async(key, start=start, length=length))
            except FileNotFoundError:
                return None

    async def delete(self, keys: Sequence[str]) -> None:
        with self._told():
            await self._store.delete_async(list(keys))

    async def pages(self, prefix: str) -> AsyncIterator[list[Listed]]:
        listing = self._store.list(prefix, chunk_size=KEYS_PER_PAGE)
        while True:
            with self._told():
                try:
                    page = await anext(listing)
                except StopAsyncIteration:
                    return
            yield [Listed(found["path"], found["last_modified"].timestamp()) for found in page]

    async def check(self) -> None:
        from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                await self._store.put_async(_PROBE, b"", use_multipart=False)
                await self._store.delete_async(_PROBE)
        except (FileNotFoundError, PermissionDeniedError, UnauthenticatedError) as error:
            raise SettingsError(f"LANGLAUF_BLOBS: {self._words(error)}") from error
        except Exception as error:
            raise StoreUnavailable(self._words(error)) from error

    async def close(self) -> None:
        """Connections close by themselves."""

    @contextmanager
    def _told(self) -> Iterator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            raise StoreUnavailable(self._words(error)) from error

    def _words(self, error: Exception) -> str:
        """Return the first line of what can be pages."""
        reason = str(error).partition("\n")[0] or "no answer in time"
        return f"the bucket {self._bucket.name!r} does not do: {reason}"


def _connect(bucket: Bucket, seconds: float) -> "S3Store":
    try:
        from obstore.exceptions import BaseError
        from obstore.store import S3Store
    except ImportError as error:
        raise SettingsError(_MISSING) from error
    config: S3Config = {}
    if bucket.endpoint is not None:
        config["endpoint"] = bucket.endpoint
    if bucket.region is not None:
        config["region"] = bucket.region
    if bucket.virtual_hosted is not None:
        config["virtual_hosted_style_request"] = bucket.virtual_hosted
    limit = timedelta(seconds=seconds)
    try:
        return S3Store(
            bucket.name,
            prefix=bucket.prefix,
            config=config,
            client_options={
                "timeout": limit,
                "connect_timeout": timedelta(seconds=min(seconds, _CONNECT_SECONDS)),
                **({} if bucket.allow_http is None else {"allow_http": bucket.allow_http}),
            },
            retry_config={"max_retries": 3, "retry_timeout": limit},
        )
    except (BaseError, ValueError) as error:
        raise SettingsError(f"LANGLAUF_BLOBS: the bucket {bucket.name!r} cannot be used: {error}") from error
