"""Packages of the extra `analyses`: imported when a job needs them, for a server may run without them."""

from importlib import import_module
from typing import Any

from langlauf.domain.errors import PermanentError


def needed(analysis: str, module: str, package: str) -> Any:
    """The module, or PermanentError `missing_dependency` that says what to install, and where."""
    try:
        return import_module(module)
    except ImportError as error:
        raise PermanentError(
            f"The analysis `{analysis}` needs the package {package}: run pip install 'langlauf[analyses]' "
            "where the worker runs, then send the job again.",
            code="missing_dependency",
        ) from error
