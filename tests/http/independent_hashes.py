"""Recomputes the hashes of a provenance from what its reader has, with the standard library and not a line of ours.

`python tests/http/independent_hashes.py provenance.json result.json source.py` prints what differs.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _compact(value: Any, *, sort: bool) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort)


def differences(facts: dict[str, Any], result: Any, source: str) -> list[str]:
    """Return the names of hashes that are not those of the input, the result and the source of the function."""
    asked = f'{{"analysis":"{facts["analysis"]}","input":{_compact(facts["input"], sort=True)}}}'
    code = facts["code"]
    computed = {
        "input_hash": (facts["input_hash"], _sha256(asked)),
        "result_sha256": (facts["result_sha256"], _sha256(_compact(result, sort=False))),
        "code_hash": (code["code_hash"], _sha256(source)),
    }
    if code["version"].startswith("code-"):
        made = "code-" + _sha256(f"{code['code_hash']} {code['package'] or ''}")[:16]
        computed["version"] = (code["version"], made)
    return [name for name, (there, here) in computed.items() if there != here]


if __name__ == "__main__":
    texts = [Path(path).read_text("utf-8") for path in sys.argv[1:4]]
    found = differences(json.loads(texts[0]), json.loads(texts[1]), texts[2])
    print(", ".join(found) or "every hash is right")
    sys.exit(bool(found))
