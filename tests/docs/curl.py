"""`curl` for machines that have none: as much of it as the documents use. `python -m tests.docs.curl WORDS`."""

import sys

import httpx2

from tests.docs.shell import read_curl

_FAILED = 22


def main(words: list[str]) -> int:
    """Sends the request, and prints the answer as curl would."""
    fails, prints_status = "-fsS" in words, "-w" in words
    kept, skip = ["curl"], 0
    for word in words:
        if skip:
            skip -= 1
        elif word in {"-o", "-w"}:
            skip = 1
        elif word != "-fsS":
            kept.append(word)
    wanted = read_curl(kept)
    answer = httpx2.request(
        wanted.method, wanted.url, headers=wanted.headers, content=wanted.body, trust_env=False, timeout=60
    )
    if fails and answer.is_error:
        print(f"curl: (22) The requested URL returned error: {answer.status_code}", file=sys.stderr)
        return _FAILED
    sys.stdout.write(str(answer.status_code) if prints_status else answer.text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
