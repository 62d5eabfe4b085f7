"""The benchmark of the PostgreSQL store: in databases of its own, which it makes and drops."""
