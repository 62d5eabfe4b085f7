"""The pages about how all of it is doing."""
