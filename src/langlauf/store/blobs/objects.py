"""Blobs in an S3-compatible object store, without a thread per request."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from langlauf.domain.errors import SettingsError, StoreUnavailable
from langlauf.store.blobs.protocol import KEYS_PER_PAGE, Listed

if TYPE_CHECKING:
    from obstore.store import S3Config, S3Store

_CONNECT_SECONDS = 5.0
_CHECK_SECONDS = 10.0
_PROBE = "probe"
_MISSING = "LANGLAUF_BLOBS names an object store, and what speaks to one is not installed: pip install 'langlauf[s3]'"


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """Where an object store is. What is None comes from the AWS_… variables of the environment, credentials always."""

    name: str
    prefix: str | None = None
    endpoint: str | None = None
    region: str | None = None
    allow_http: bool | None = None
    virtual_hosted: bool | None = None


class ObjectBlobs:
    """One object per blob. A blob is one request: nothing of it is left behind where that is cut off."""

    def __init__(self, bucket: Bucket, *, seconds: float) -> None:
        self._bucket = bucket
        self._store = _connect(bucket, seconds)

    async def put(self, key: str, data: bytes) -> None:
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
        """The first line of what can be pages."""
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
