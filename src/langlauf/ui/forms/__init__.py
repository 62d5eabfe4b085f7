"""Forms for people, made from the JSON schema of an analysis' input."""
