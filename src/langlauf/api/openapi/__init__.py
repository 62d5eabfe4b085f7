"""The parts of the OpenAPI document, one concept each; `langlauf.api.openapi.document` puts them together."""
