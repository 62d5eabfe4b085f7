"""Which program this is."""

from importlib.metadata import PackageNotFoundError, version


def _version() -> str:
    """The version of the package; one that runs from its sources, and was never installed, has none."""
    try:
        return version("langlauf")
    except PackageNotFoundError:
        return "unreleased"


VERSION = _version()
