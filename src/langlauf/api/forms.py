"""Reading the forms of our own pages: small, plain, each field once."""

from urllib.parse import parse_qsl

from starlette.requests import Request

from langlauf.api.requests import read_body
from langlauf.problems import Problem, bad_request

FORM = "application/x-www-form-urlencoded"
#: In bytes; whoever expects texts of people asks for more.
SMALL_FORM = 16_384
_MOST_FIELDS = 200


async def read_form(request: Request, seconds: float, largest: int = SMALL_FORM) -> dict[str, str]:
    """The fields of a form by name."""
    body = await read_body(request, largest, seconds)
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise Problem(415, "unsupported_media_type", f"Send the form as {FORM}.", headers={"Accept": FORM})
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
    except ValueError:
        raise bad_request("The form cannot be read.") from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise bad_request("A field of the form stands there twice.")
    return fields
