"""No name leads a webhook inward, whatever it stands for and when; in a network where public addresses are ours."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.delivery.rebinding import INNER, NAMES, SILENT, SPELLED
from tests.support.network import check_namespaces
from tests.support.process_environment import check_ipv6


def test_no_webhook_goes_inward(tmp_path: Path) -> None:
    check_namespaces("--net", "--mount")
    check_ipv6()
    proxies = {"HTTPS_PROXY": "http://10.9.9.9:3128", "ALL_PROXY": "http://10.9.9.9:3128", "NO_PROXY": ""}
    run = subprocess.run(
        ["unshare", "--net", "--mount", "--", sys.executable, "-m", "tests.delivery.rebinding", str(tmp_path)],
        env={**os.environ, **proxies},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert run.returncode == 0, run.stderr[-3_000:]
    found = json.loads(run.stdout)
    assert found["calls"] == {INNER[1]: 1}, "only the test itself called an inner address, to see that it is counted"
    statuses = {url: status for url, (status, _, _) in found["messages"].items()}
    assert statuses == {
        **{f"https://{name}/{name}": "sent" if good else "failed" for name, (_, good) in NAMES.items()},
        **dict.fromkeys(SPELLED, "failed"),
    }
    assert found["arrived"] == {f"/{name}": 1 for name, (_, good) in NAMES.items() if good}
    assert found["hosts"] == sorted(name for name, (_, good) in NAMES.items() if good), "the name is kept"
    named = {name: found["messages"][f"https://{name}/{name}"] for name in NAMES}
    others = {"good.example.org", "inner.example.org"}  # other names stand for these, and ask for them
    for name in NAMES.keys() - others - {SILENT}:
        assert found["asked"][name] == named[name][1], f"{name} is asked for once at each try"
    reasons = ("on a private network", "metadata service", "not the address of a single machine")
    for name in NAMES.keys() - {"unknown.example.org", SILENT}:
        assert (named[name][2] is None) == NAMES[name][1]
        assert named[name][2] is None or any(reason in named[name][2] for reason in reasons), named[name][2]
