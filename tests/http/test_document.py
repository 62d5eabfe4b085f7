"""The OpenAPI document is valid, complete, and made of what is really sent and taken."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from langlauf.api.openapi.document import build_document
from langlauf.api.operations import OPERATIONS
from langlauf.bundled import app as bundled
from langlauf.problems import JOB_TITLES, TITLES
from tests.support.live import GATES, Live, live, sample_app

NAMES = ("bundled", "sample")


@cache
def _document(name: str) -> dict[str, Any]:
    return build_document((bundled if name == "bundled" else sample_app()).registry)


def _walk(value: Any, path: str = "#") -> Iterator[tuple[str, Any]]:
    yield path, value
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, child in children:
        yield from _walk(child, f"{path}/{name}")


def _resolve(document: dict[str, Any], ref: str) -> Any:
    found: Any = document
    for part in ref.removeprefix("#/").split("/"):
        found = found[part]
    return found


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def _validator(document: dict[str, Any], schema: dict[str, Any]) -> jsonschema_rs.Validator:
    """A schema of the document with everything it points to; formats count."""
    whole = {"components": document["components"], **schema}
    return jsonschema_rs.Draft202012Validator(whole, validate_formats=True)


@pytest.mark.parametrize("name", NAMES)
def test_the_document_is_valid_openapi(name: str) -> None:
    """By the meta-schema of OpenAPI 3.1; and every schema is JSON Schema 2020-12."""
    document = _document(name)
    assert document["openapi"] == "3.1.1"
    from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

    assert [error.message for error in OPENAPI_31_VALIDATOR.iter_errors(document)] == []
    for schema in document["components"]["schemas"].values():
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})


@pytest.mark.parametrize("name", NAMES)
def test_every_reference_leads_somewhere_and_nothing_shared_is_unused(name: str) -> None:
    """Components are there because something points to them; what any address may answer is there for people."""
    document = _document(name)
    refs = {value for path, value in _walk(document) if path.endswith("/$ref")}
    for ref in refs:
        assert _resolve(document, ref) is not None
    kept = {
        f"#/components/{kind}/{one}"
        for kind in ("schemas", "responses", "headers")
        for one in document["components"][kind]
    }
    general = {"#/components/responses/405_method_not_allowed"}
    of_codes = {ref for ref in kept if ref.endswith("Problem")}  # also those of codes that only jobs have
    assert kept - refs - of_codes == general


def test_operation_ids_are_those_of_the_table() -> None:
    """Clients are generated from them: they are unique, and as stable as the table."""
    ids = [operation["operationId"] for _, _, operation in _operations(_document("bundled"))]
    assert ids == list(dict.fromkeys(ids)) == [operation.name for operation in OPERATIONS]


def test_every_operation_says_what_it_needs_and_how_it_can_end() -> None:
    """A scope or nobody is asked; problems for what can go wrong; the id of the request on every answer."""
    document = _document("bundled")
    for path, _, operation in _operations(document):
        assert ("x-scope" in operation) != (operation.get("security") == []), path
        assert "500" in operation["responses"]
        assert {"400", "401", "403"} <= set(operation["responses"]) or operation.get("security") == []
        for status, answer in operation["responses"].items():
            described = _resolve(document, answer["$ref"]) if "$ref" in answer else answer
            assert described["headers"]["X-Request-Id"]["$ref"].endswith(".always"), (path, status)
            assert set(described.get("content", {})) <= {
                "application/problem+json" if int(status) >= 400 else "application/json",
                "application/prov+json",
                "text/event-stream",
                "text/plain",
            }
        assert len(set(re.findall(r"\{(\w+)\}", path))) == sum(one["in"] == "path" for one in operation["parameters"])


def test_every_code_has_its_schema() -> None:
    """With the address of its page and its title; statuses are those of the operations."""
    schemas = _document("bundled")["components"]["schemas"]
    for code, title in {**TITLES, **JOB_TITLES}.items():
        name = "".join(word.capitalize() for word in code.split("_")) + "Problem"
        assert schemas[name]["properties"]["title"] == {"const": title}
        assert re.search(schemas[name]["properties"]["type"]["pattern"], f"/problems/{code}")


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_to_operations_and_their_parameters(name: str) -> None:
    """From a submission to the job's status, log, snapshots and stopping; from a result to its job."""
    document = _document(name)
    known = {operation["operationId"]: operation for _, _, operation in _operations(document)}
    accepted = document["paths"]["/analyze"]["post"]["responses"]["202"]["links"]
    assert {"status", "results", "cancel"} <= set(accepted)
    for path, value in _walk(document["paths"]):
        if path.endswith("/links"):
            for link in value.values():
                names = {one["name"] for one in known[link["operationId"]]["parameters"]}
                assert set(link["parameters"]) <= names


def _examples(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], Any]]:
    for path, value in _walk(document):
        if isinstance(value, dict) and "schema" in value and "examples" in value:
            for name, example in value["examples"].items():
                yield f"{path}/{name}", value["schema"], example["value"]


@pytest.mark.parametrize("name", NAMES)
def test_every_example_fits_its_schema(name: str) -> None:
    """Those of requests, of answers and of the webhook; every JSON answer has one."""
    document, found = _document(name), set()
    for path, schema, value in _examples(document):
        found.add(path)
        assert [error.message for error in _validator(document, schema).iter_errors(value)] == [], path
    assert len(found) > 15
    for path, _, operation in _operations(document):
        for status in ("200", "202"):
            content = operation["responses"].get(status, {}).get("content", {}).get("application/json")
            assert content is None or content.get("examples") or operation["operationId"] == "openapi", path


def test_examples_of_requests_are_taken(server: Live) -> None:
    """Each is sent as it stands, as a job: what the document shows works."""
    document = server.http.get("/openapi.json").json()
    body = document["paths"]["/analyze"]["post"]["requestBody"]["content"]["application/json"]
    assert len(body["examples"]) == 2 * len(server.app.registry.names)
    GATES.open("example")  # whoever waits at the gate of an example need not
    for name, example in body["examples"].items():
        headers = {"X-Org-Id": name, "Prefer": "respond-async"}
        response = server.http.post("/analyze", json=example["value"], headers=headers)
        assert response.status_code == 202, (name, response.text)
        assert _validator(document, {"$ref": "#/components/schemas/AcceptedResponse"}).is_valid(response.json())
        cancel = document["paths"]["/analyze/jobs/{job_id}/cancel"]["post"]["requestBody"]["content"][
            "application/json"
        ]
        stopped = server.http.post(
            response.headers["location"] + "/cancel", json=cancel["examples"]["body"]["value"], headers=headers
        )
        assert stopped.status_code in (200, 202, 409), stopped.text


def test_the_server_of_the_document_is_where_it_was_read(tmp_path: Path) -> None:
    """The public address where there is one; a server that wants a token does not offer to do without."""
    with live(tmp_path, LANGLAUF_PUBLIC_URL="https://jobs.example/api/", API_AUTH_TOKEN="operator-token") as server:
        document = server.http.get("/openapi.json").json()
    assert document["servers"] == [{"url": "https://jobs.example/api"}]
    assert {} not in document["security"]
    assert {} in _document("bundled")["security"]


def test_whatever_shows_who_calls_is_described() -> None:
    """A token in the address is a way in where it is a parameter, and nowhere else."""
    document = _document("bundled")
    for path, method, operation in _operations(document):
        ways = operation["security"] if "security" in operation else document["security"]
        by_token = {"token": []} in ways
        assert by_token == any(one["name"] == "access_token" for one in operation["parameters"]), (method, path)
        used = {name for way in ways for name in way}
        assert used <= set(document["components"]["securitySchemes"])


def test_the_headers_that_a_job_keeps_are_described() -> None:
    """Where a job is made, the trace and the person it belongs to can be named."""
    made = [one for _, _, one in _operations(_document("bundled")) if one["operationId"] in ("analyze", "retryJob")]
    for operation in made:
        named = {one["name"] for one in operation["parameters"] if one["in"] == "header"}
        assert {"X-User-Id", "traceparent", "tracestate", "Idempotency-Key"} <= named


def test_the_webhook_is_described_where_it_is_asked_for(server: Live) -> None:
    """The callback stands at the submission, with the types that go out; the address of one is checked there."""
    callbacks = _document("bundled")["paths"]["/analyze"]["post"]["callbacks"]
    called = callbacks["webhook"]["{$request.body#/options/async_mode/notify/webhook}"]["post"]
    assert "Standard Webhooks" in called["description"]
    body = {"query": "x", "options": {"async_mode": {"notify": {"webhook": "https://127.0.0.1/x"}}}}
    assert server.http.post("/analyze", json=body).status_code == 400
    types = _document("bundled")["components"]["schemas"]["OutboundType"]["enum"]
    assert types == sorted(f"api.analyze.job.{word}" for word in (
        "queued", "started", "partial", "completed", "failed", "canceled"))  # fmt: skip
