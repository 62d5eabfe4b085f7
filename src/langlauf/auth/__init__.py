"""Authentication and authorization: who the caller is, for which org, what they may do and how often."""
