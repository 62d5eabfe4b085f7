"""Beside another application: where this one begins."""

from starlette.types import Scope


def root_address(scope: Scope, public_url: str | None) -> str:
    """Where this application begins, seen from the caller: the public address where it is known, else a path."""
    root: str = public_url or scope.get("root_path", "")
    return root.rstrip("/")
