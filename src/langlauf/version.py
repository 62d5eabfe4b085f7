"""The version of this program."""

from importlib.metadata import PackageNotFoundError, version


def _version() -> str:
    """Return the version of the package, or a placeholder if it was never installed."""
    try:
        return version("langlauf")
    except PackageNotFoundError:
        return "unreleased"


VERSION = _version()
