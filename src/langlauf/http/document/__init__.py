"""The parts of the OpenAPI document, one concept each; `langlauf.http.openapi` puts them together."""
