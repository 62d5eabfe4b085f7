"""The hash of a function's source, and the version of the package that it comes from."""

import hashlib
import inspect
import platform
import socket
from importlib import metadata

from langlauf.analysis.registry import Analysis
from langlauf.domain.provenance import CodeVersion, derived_version
from langlauf.version import VERSION


def code_version(analysis: Analysis) -> CodeVersion:
    """Return which code of the analysis this process runs."""
    code_hash, package = source_hash(analysis), _package_of(analysis)
    return CodeVersion(
        analysis=analysis.name,
        version=analysis.version or derived_version(code_hash, package),
        code_hash=code_hash,
        package=package,
        langlauf=VERSION,
        python=platform.python_version(),
        host=socket.gethostname(),
    )


def source_hash(analysis: Analysis) -> str:
    """Return the SHA-256 of the function's source; of its byte code where there is no source."""
    function = inspect.unwrap(analysis.function)
    try:
        text = inspect.getsource(function).encode()
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        text = repr(function).encode() if code is None else code.co_code + repr(code.co_consts).encode()
    return hashlib.sha256(text).hexdigest()


def _package_of(analysis: Analysis) -> str | None:
    """Return the distribution with the name of the function's top-level module, and its version."""
    name = (getattr(analysis.function, "__module__", None) or "").partition(".")[0]
    try:
        return f"{name} {metadata.version(name)}" if name else None
    except metadata.PackageNotFoundError:
        return None
