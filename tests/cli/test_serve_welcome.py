"""What the start of `serve` tells about who can read the metrics."""

from pathlib import Path

import pytest

from langlauf import Langlauf
from langlauf.auth.keyring import KeyService
from langlauf.bootstrap import Runtime
from langlauf.cli.serve import _welcome
from tests.support.running_app import run


@pytest.mark.parametrize(
    ("has_key", "token", "told"), [(True, "", True), (True, "a-token-of-a-test", False), (False, "", False)]
)
def test_keys_without_an_operator_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], has_key: bool, token: str, told: bool
) -> None:
    """No key opens `/metrics`; without keys, or with a token, there is nothing to say."""

    async def body(app: Langlauf, runtime: Runtime) -> None:
        if has_key:
            await KeyService(runtime.store.access, runtime.store.clock).create("org-a")
        await runtime.services.authenticator.refresh()
        _welcome("http://127.0.0.1:8080", app)

    run(Langlauf(), tmp_path, body, **({"API_AUTH_TOKEN": token} if token else {}))
    assert ("no key can read /metrics or see all orgs" in capsys.readouterr().err) is told
