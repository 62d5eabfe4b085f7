"""Signatures of webhooks by the Standard Webhooks scheme: HMAC-SHA256 over id, timestamp and body.

A secret is `whsec_` and 24 to 64 bytes in Base64. The secret of an endpoint is made from one that the store keeps, the
endpoint's id and the number of the secret: so it can be made again and never lies anywhere. The secret of an org, which
signs for the addresses that its jobs name, is made from the operator's: a receiver needs only that of its own org.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable

SECRET_PREFIX = "whsec_"  # noqa: S105 - the prefix, not a secret
#: What the store keeps the secret for that those of endpoints are made from.
ENDPOINT_SECRETS_PURPOSE = "webhook endpoints"
_FEWEST_BYTES = 24
_MOST_BYTES = 64


def read_secret(text: str) -> bytes:
    """The bytes of a secret; `ValueError` where it is none, without a word of what it says."""
    if not text.startswith(SECRET_PREFIX):
        raise ValueError(f"a secret starts with {SECRET_PREFIX}")
    try:
        secret = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error:
        raise ValueError(f"what follows {SECRET_PREFIX} must be Base64") from None
    if not _FEWEST_BYTES <= len(secret) <= _MOST_BYTES:
        raise ValueError(f"a secret has {_FEWEST_BYTES} to {_MOST_BYTES} bytes, this one has {len(secret)}")
    return secret


def secret_text(secret: bytes) -> str:
    """A secret as its owner is shown it."""
    return SECRET_PREFIX + base64.b64encode(secret).decode()


def endpoint_secret(master: bytes, org_id: str, endpoint_id: str, version: int) -> bytes:
    """The secret of an endpoint, the same whenever it is asked for."""
    return hmac.digest(master, f"webhook {org_id} {endpoint_id} {version}".encode(), hashlib.sha256)


def org_secret(operator_secret: bytes, org_id: str) -> bytes:
    """The secret that signs for the jobs of an org; neither the operator's nor another org's can be made from it."""
    return hmac.digest(operator_secret, f"webhooks of org {org_id}".encode(), hashlib.sha256)


def signatures(secrets: Iterable[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """The header `webhook-signature`: one signature for each secret, so that receivers can change over in peace."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return " ".join(f"v1,{base64.b64encode(hmac.digest(one, signed, hashlib.sha256)).decode()}" for one in secrets)
