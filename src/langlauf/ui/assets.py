"""The style sheet and the scripts of the pages, at addresses that contain a hash of their content."""

import hashlib
import re
from importlib.resources import files
from importlib.resources.abc import Traversable

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from langlauf.api.context import etag_matches, etags_of_caller

ASSET_PATH = "/static/{version}/{name}"
STYLESHEET = "langlauf.css"
_CACHE_FOREVER = "public, max-age=31536000, immutable"
#: Files that other sites load, at a fixed address; the version is that of the interface they promise.
PUBLISHED = ("job-progress.js",)
PUBLISHED_VERSION = "v1"
#: Comment lines and indentation, which browsers do not need.
_COMMENTS_AND_INDENT = re.compile(rb"^(?:[ ]*(?://|/\*\*).*\n|[ ]+)", re.MULTILINE)
_MEDIA_TYPES = {"css": "text/css", "js": "text/javascript"}


class Asset(msgspec.Struct, frozen=True):
    """One file, ready to send."""

    body: bytes
    media_type: str


class Assets:
    """All assets share one version, so that scripts find each other by relative paths."""

    def __init__(self) -> None:
        room = files(__package__) / "static"
        style = b"\n".join(sheet.read_bytes() for sheet in _sorted_files(room / "style"))
        self._assets = {STYLESHEET: Asset(style, _MEDIA_TYPES["css"])}
        for script in _sorted_files(room / "script"):
            body = script.read_bytes()
            self._assets[script.name] = Asset(_minified(body) if script.name in PUBLISHED else body, _MEDIA_TYPES["js"])
        digest = hashlib.sha256(b"\0".join(asset.body for asset in self._assets.values()))
        self.version = digest.hexdigest()[:16]

    def path(self, name: str) -> str:
        """Return the path from the root to an asset; raise KeyError for an unknown one."""
        if name not in self._assets:
            raise KeyError(name)
        return f"static/{self.version}/{name}"

    async def serve(self, request: Request) -> Response:
        """Send an asset. At an outdated version it sends the current one, not to be cached."""
        asset = self._assets.get(request.path_params["name"])
        if asset is None:
            raise HTTPException(404)
        version = request.path_params["version"]
        if version == PUBLISHED_VERSION and request.path_params["name"] in PUBLISHED:
            return _published_response(request, asset)
        current = version == self.version
        headers = {"Cache-Control": _CACHE_FOREVER if current else "no-cache", "X-Content-Type-Options": "nosniff"}
        return Response(asset.body, headers=headers, media_type=asset.media_type)


def _published_response(request: Request, asset: Asset) -> Response:
    """Send a file that any origin may load, with an ETag because its address does not change."""
    etag = f'"{hashlib.sha256(asset.body).hexdigest()[:32]}"'
    headers = {"Cache-Control": "no-cache", "ETag": etag, "Access-Control-Allow-Origin": "*"}
    known = etags_of_caller(request)
    if known is not None and etag_matches(known, etag):
        return Response(status_code=304, headers=headers)
    headers |= {"X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "cross-origin"}
    return Response(asset.body, headers=headers, media_type=asset.media_type)


def _minified(script: bytes) -> bytes:
    """Return a script without comment lines and indentation."""
    return _COMMENTS_AND_INDENT.sub(b"", script)


def _sorted_files(folder: Traversable) -> list[Traversable]:
    return sorted((one for one in folder.iterdir() if one.is_file()), key=lambda one: one.name)
