"""The HTTP contract: request shape, one call of a use case, response shape."""
