"""Packages of the extra `analyses`, imported when a job needs them: a server may run without them."""

from importlib import import_module
from typing import Any, Final

from langlauf.domain.errors import PermanentError

MISSING_PACKAGE: Final = (
    "The analysis `{}` needs the package {}: run pip install 'langlauf[analyses]' where the worker runs, then send the "
    "job again."
)
MISSING_PACKAGE_GERMAN: Final = (
    "Die Analyse `{}` braucht das Paket {}: Auf dem Rechner des Workers pip install 'langlauf[analyses]' ausführen und "
    "den Job noch einmal starten."
)


def require_package(analysis: str, module: str, package: str) -> Any:
    """Import and return a module; raise PermanentError `missing_dependency` with the command that installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise PermanentError(MISSING_PACKAGE.format(analysis, package), code="missing_dependency") from error
