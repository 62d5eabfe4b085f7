"""Functions and types told by name, so that another process finds the same one. Nothing is ever pickled."""

import importlib
from typing import Any

from langlauf.domain.errors import RegistrationError


def reference_to(named: Any) -> str:
    """`module:name` of something that stands at the top of its module, or in a class there."""
    module, name = getattr(named, "__module__", None), getattr(named, "__qualname__", None)
    if not module or not name:
        raise RegistrationError(f"{named!r} has no name that another process could find it by")
    if "<" in name:
        raise RegistrationError(
            f"{name} stands inside a function; another process cannot find it there: move it to the top of {module}"
        )
    return f"{module}:{name}"


def resolve(reference: str) -> Any:
    """What the reference names; imports its module where that is new."""
    module, _, name = reference.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found
