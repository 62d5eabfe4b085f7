"""Responses beside pages: redirects, downloads that are safe to send, the style sheet and the scripts."""

import hashlib
import re
import struct
from importlib.resources import files
from importlib.resources.abc import Traversable

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from langlauf.api.context import etag_matches, etags_of_caller
from langlauf.problems import VARY


def see_other(address: str) -> Response:
    """303 redirect, never cached because the target depends on the caller."""
    return RedirectResponse(address, 303, headers={"Cache-Control": "no-store", "Vary": VARY})


_MAX_PATH = 500
_PATH_SEGMENT = re.compile(r"[A-Za-z0-9_~:][A-Za-z0-9_.~:-]*", re.ASCII)
_QUERY_STRING = re.compile(r"[A-Za-z0-9_.~%=&+-]*", re.ASCII)


def local_path(text: str) -> str:
    """Return the path of one of our pages, or an empty string, so that a redirect stays on this server."""
    path, mark, query = text.removeprefix("/").partition("?")
    if len(text) > _MAX_PATH or not _QUERY_STRING.fullmatch(query):
        return ""
    if path and not all(_PATH_SEGMENT.fullmatch(part) for part in path.split("/")):
        return ""
    return path + mark + query


_PNG, _GIF, _JPEG = b"\x89PNG\r\n\x1a\n", (b"GIF87a", b"GIF89a"), b"\xff\xd8\xff"
#: Media types that a download may have; any other becomes application/octet-stream.
_DOWNLOADABLE_TYPES = frozenset(
    {
        "application/geo+json",
        "application/json",
        "application/pdf",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "application/zip",
        "text/csv",
        "text/plain",
        "text/tab-separated-values",
    }
)
_BINARY_TYPE = "application/octet-stream"
_UNSAFE_IN_NAME = re.compile(r'[\x00-\x1f\x7f"\\/:*?<>|]+')
_MAX_FILE_NAME = 120
#: JPEG segments that contain the size.
_JPEG_SIZE_MARKERS = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_JPEG_BARE_MARKERS = frozenset({0x01, *range(0xD0, 0xD9)})


class ImageInfo(msgspec.Struct, frozen=True):
    """Type and size of an image, read from its bytes. A size of 0 is unknown."""

    media_type: str
    width: int = 0
    height: int = 0


def image_info(data: bytes, media_type: str) -> ImageInfo | None:
    """Return the image if its bytes have the declared type; None for anything that a page does not display."""
    found = _sniff_image(data)
    said = media_type.partition(";")[0].strip().lower().replace("image/jpg", "image/jpeg")
    return found if found is not None and found.media_type == said else None


def _sniff_image(data: bytes) -> ImageInfo | None:
    try:
        if data.startswith(_PNG):
            return ImageInfo("image/png", *struct.unpack(">II", data[16:24]))
        if data.startswith(_GIF):
            return ImageInfo("image/gif", *struct.unpack("<HH", data[6:10]))
        if data.startswith(_JPEG):
            return ImageInfo("image/jpeg", *_jpeg_size(data))
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return ImageInfo("image/webp", *_webp_size(data))
    except (struct.error, IndexError):
        return None
    return None


def _jpeg_size(data: bytes) -> tuple[int, int]:
    at = 2
    while at < len(data):
        marker = data[at + 1]
        if data[at] != 0xFF:  # noqa: PLR2004 - every segment starts so
            break
        if marker in _JPEG_SIZE_MARKERS:
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 if marker in _JPEG_BARE_MARKERS else 2 + struct.unpack(">H", data[at + 2 : at + 4])[0]
    return 0, 0


def _webp_size(data: bytes) -> tuple[int, int]:
    if data[12:16] == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if data[12:16] == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    width, height = struct.unpack("<HH", data[26:30])
    return width & 0x3FFF, height & 0x3FFF


def download_type(media_type: str) -> str:
    """Return the media type of a download; never one that a browser renders."""
    said = media_type.partition(";")[0].strip().lower()
    return said if said in _DOWNLOADABLE_TYPES else _BINARY_TYPE


def file_name(name: str) -> str:
    """Return a file name that is valid on every system and contains no path."""
    return _UNSAFE_IN_NAME.sub("_", name).strip(" .")[:_MAX_FILE_NAME] or "file"


# -- style sheet and scripts -------------------------------------------------------------------------------------------

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
