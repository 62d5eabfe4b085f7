"""What the server would send by itself: the webhook of a job."""

from langlauf.api.openapi.examples import cloud_event
from langlauf.api.openapi.shapes import Document, json_content, ref
from langlauf.domain.outbound import CLOUD_EVENT, CloudEvent

#: Where the address of the webhook stands in a submission.
_ADDRESS = "{$request.body#/options/async_mode/notify/webhook}"
_TEXT = (
    "A CloudEvent when the job is `completed`, `failed` or `canceled`, signed by the Standard Webhooks scheme. It is "
    "sent at least once: what is not taken is tried again for days. Endpoints of the org (`/webhooks`) get the same "
    "of all its jobs, and may subscribe to more."
)
_HEADERS = {
    "webhook-id": "The same on every repetition: whoever has seen it has seen the event.",
    "webhook-timestamp": "When this attempt was made, in seconds since 1970.",
    "webhook-signature": "`v1,` and the HMAC-SHA256 of id, timestamp and body in Base64; several with blanks between.",
}


def webhook() -> Document:
    """The callback of a submission."""
    return {
        "webhook": {
            _ADDRESS: {
                "post": {
                    "summary": "The job has ended.",
                    "description": _TEXT,
                    "parameters": [
                        {
                            "name": name,
                            "in": "header",
                            "required": True,
                            "schema": {"type": "string"},
                            "description": text,
                        }
                        for name, text in _HEADERS.items()
                    ],
                    "requestBody": {
                        "required": True,
                        "content": json_content(ref(CloudEvent), {"completed": {"value": cloud_event()}}, CLOUD_EVENT),
                    },
                    "responses": {
                        "2XX": {"description": "Taken. Anything else is tried again, a redirect included."},
                        "410": {"description": "Nobody is interested any more; nothing further is sent there."},
                    },
                }
            }
        }
    }


def _header(name: str, text: str) -> Document:
    return {"name": name, "in": "header", "required": True, "schema": {"type": "string"}, "description": text}
