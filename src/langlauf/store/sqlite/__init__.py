"""The store of one machine: one SQLite file, one writer, readers beside it."""
