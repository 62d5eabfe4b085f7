"""What the stores cost, for those who work on them."""
