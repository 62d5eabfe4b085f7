"""The HTTP API: each endpoint reads its request, calls one use case and writes its response."""
