"""The use cases, always for one org: submit, control, read, follow."""
