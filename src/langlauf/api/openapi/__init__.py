"""The OpenAPI document, one concept per module; `langlauf.api.openapi.document` assembles it."""
