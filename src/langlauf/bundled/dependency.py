"""Packages of the extra `analyses`, imported when a job needs them: a server may run without them."""

from importlib import import_module
from typing import Any

from langlauf.domain.errors import PermanentError


def require_package(analysis: str, module: str, package: str) -> Any:
    """Import and return a module; raise PermanentError `missing_dependency` with the command that installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise PermanentError(
            f"The analysis `{analysis}` needs the package {package}: run pip install 'langlauf[analyses]' "
            "where the worker runs, then send the job again.",
            code="missing_dependency",
        ) from error
