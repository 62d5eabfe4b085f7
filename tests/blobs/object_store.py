"""A real S3-compatible server on loopback, and credentials that it takes."""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx2

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "tests", "AWS_REGION": "eu-central-2"}


class ObjectStore:
    """A server that runs. Buckets are made by hand: Langlauf makes none."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint

    def make(self, bucket: str) -> None:
        """Makes a bucket."""
        httpx2.put(f"{self.endpoint}/{bucket}").raise_for_status()

    def url(self, bucket: str, prefix: str = "") -> str:
        """What LANGLAUF_BLOBS says."""
        return f"s3://{bucket}/{prefix}?endpoint={self.endpoint}&allow_http=true"


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Runs one until the block ends."""
    from moto.server import ThreadedMotoServer  # a second to import, for the few tests that need it

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield ObjectStore(f"http://{host}:{port}")
    finally:
        server.stop()
