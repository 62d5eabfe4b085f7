"""JSON pointers (RFC 6901): where something stands inside a result."""

import re
from collections.abc import Sequence

_ESCAPE = re.compile(r"~(?![01])")


def pointer_parts(pointer: str) -> list[str]:
    """The names and positions that a pointer goes through; raises `ValueError` where it is none. `""` is the whole."""
    if pointer and not pointer.startswith("/"):
        raise ValueError(f"{pointer!r} does not start with a slash; write /{pointer}")
    if _ESCAPE.search(pointer):
        raise ValueError(f"{pointer!r} has a ~ on its own; write ~0 for a tilde and ~1 for a slash in a name")
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def pointer_to(parts: Sequence[object], longest: int) -> str:
    """The pointer through these names and positions; a long one is cut in its middle. `""` is the whole."""
    half = longest // 2
    escaped = [str(part)[:half].replace("~", "~0").replace("/", "~1") for part in parts]
    pointer = "".join(f"/{part}" for part in escaped)
    return pointer if len(pointer) <= longest else f"{pointer[:half]}…{pointer[-half:]}"
