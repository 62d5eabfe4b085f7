"""One module per page, with the forms on it and what it shows."""
