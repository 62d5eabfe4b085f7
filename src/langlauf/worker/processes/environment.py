"""The environment of processes that run code of analyses: what it takes to run, what the operator lists, no secret."""

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from langlauf.settings import SECRETS

#: A `*` at the end stands for any rest.
PASSED_ON = (
    # to find programs, libraries and folders
    *("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHON*", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV"),
    *("HOME", "USER", "LOGNAME", "SHELL", "TERM", "PWD", "TMPDIR", "TEMP", "TMP", "XDG_*", "HOSTNAME"),
    # language and time
    *("LANG", "LANGUAGE", "LC_*", "TZ", "TZDIR"),
    # threads, cores, memory and devices of libraries that compute
    *("OMP_*", "OPENBLAS_*", "GOTO_*", "MKL_*", "BLIS_*", "VECLIB_*", "NUMEXPR_*", "NUMBA_*", "KMP_*", "MALLOC_*"),
    *("POLARS_MAX_THREADS", "RAYON_NUM_THREADS", "CUDA_*", "NVIDIA_*", "HIP_*", "ROCR_*", "MPLBACKEND", "MPLCONFIGDIR"),
    # the way to other machines, and whom to trust there
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    # tracing, and what the bundled analyses read
    *("OTEL_*", "LANGLAUF_ADDRESS_TABLE"),
)
#: Names of the list above that may hold a key.
_WITHHELD = ("OTEL_*HEADERS",)
#: A web address with a password in it.
_PASSWORD = re.compile(r"://[^\s/@]*:[^\s/@]+@")


def child_environment(environment: Mapping[str, str], listed: Sequence[str]) -> dict[str, str]:
    """What of an environment is passed on. `listed` is the operator's own list (`LANGLAUF_CHILD_ENV`)."""
    return {name: value for name, value in environment.items() if _is_passed_on(name, value, listed)}


def _is_passed_on(name: str, value: str, listed: Sequence[str]) -> bool:
    if name in listed:
        return True
    if name in SECRETS:  # only under its full name: a pattern is not meant to have it
        return False
    if _fits(name, listed):
        return True
    return _fits(name, PASSED_ON) and not _fits(name, _WITHHELD) and _PASSWORD.search(value) is None


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
