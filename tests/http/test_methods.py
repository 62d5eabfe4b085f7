"""Every address with every method: what all answers have in common, whoever asks and however."""

from typing import Any

import pytest

from langlauf.http.app import api_routes
from langlauf.ui.pages import page_routes
from tests.http.test_errors import assert_problem
from tests.support.live import Live

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
#: Who needs no key is sent on, and so is who would stop what has ended; what was not named or not drawn does not exist.
_ELSEWHERE = {"/login": 303, "/cancel": 303, "/again": 404, "/views/1": 404, "/views/1.svg": 404}
