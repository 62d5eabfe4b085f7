"""Durable truth behind one protocol."""
