"""Payloads that are too large for a row: in files, or in an object store."""
