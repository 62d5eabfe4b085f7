"""Pictures and files that an analysis gave: what they really are, and under which type they may be sent."""

import re
import struct

import msgspec

_PNG, _GIF, _JPEG = b"\x89PNG\r\n\x1a\n", (b"GIF87a", b"GIF89a"), b"\xff\xd8\xff"
#: Types that a browser may be told for a download; anything else is just bytes.
_TOLD = frozenset(
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
_UNKNOWN = "application/octet-stream"
_STRANGE = re.compile(r'[\x00-\x1f\x7f"\\/:*?<>|]+')
_LONGEST_NAME = 120
#: JPEG: the segments that hold the size.
_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_STANDALONE = frozenset({0x01, *range(0xD0, 0xD9)})


class Picture(msgspec.Struct, frozen=True):
    """What the bytes of a picture say themselves. A size of 0 is not known."""

    media_type: str
    width: int = 0
    height: int = 0


def picture_of(data: bytes, media_type: str) -> Picture | None:
    """A picture of the type that was said; None where the bytes are something else, or nothing a page shows."""
    found = _read(data)
    said = media_type.partition(";")[0].strip().lower().replace("image/jpg", "image/jpeg")
    return found if found is not None and found.media_type == said else None


def _read(data: bytes) -> Picture | None:
    try:
        if data.startswith(_PNG):
            return Picture("image/png", *struct.unpack(">II", data[16:24]))
        if data.startswith(_GIF):
            return Picture("image/gif", *struct.unpack("<HH", data[6:10]))
        if data.startswith(_JPEG):
            return Picture("image/jpeg", *_jpeg_size(data))
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return Picture("image/webp", *_webp_size(data))
    except (struct.error, IndexError):
        return None
    return None


def _jpeg_size(data: bytes) -> tuple[int, int]:
    at = 2
    while at < len(data):
        marker = data[at + 1]
        if data[at] != 0xFF:  # noqa: PLR2004 - every segment starts so
            break
        if marker in _FRAMES:
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 if marker in _STANDALONE else 2 + struct.unpack(">H", data[at + 2 : at + 4])[0]
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
    """The type under which a file is sent: one that no browser takes for a page."""
    said = media_type.partition(";")[0].strip().lower()
    return said if said in _TOLD else _UNKNOWN


def file_name(name: str) -> str:
    """A name that is one on any system, without a way in it."""
    return _STRANGE.sub("_", name).strip(" .")[:_LONGEST_NAME] or "file"
