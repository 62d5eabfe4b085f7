"""The store of many machines: one PostgreSQL database."""
