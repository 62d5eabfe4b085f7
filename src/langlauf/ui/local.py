"""Where a person wanted to go: only ever a page of ours."""

import re

_LONGEST = 500
_SEGMENT = re.compile(r"[A-Za-z0-9_~:][A-Za-z0-9_.~:-]*", re.ASCII)
_QUERY = re.compile(r"[A-Za-z0-9_.~%=&+-]*", re.ASCII)


def local_path(text: str) -> str:
    """The way from our root to a page; empty, which is the root, for anything else: nobody is sent elsewhere."""
    path, mark, query = text.removeprefix("/").partition("?")
    if len(text) > _LONGEST or not _QUERY.fullmatch(query):
        return ""
    if path and not all(_SEGMENT.fullmatch(part) for part in path.split("/")):
        return ""
    return path + mark + query
