"""Pages about the org's endpoints and what is sent to them."""
