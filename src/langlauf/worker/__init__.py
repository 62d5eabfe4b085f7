"""Runs analyses: claims jobs, keeps their leases alive, and writes how their attempts end."""
