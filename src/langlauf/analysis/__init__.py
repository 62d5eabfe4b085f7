"""What a user's function is: how it is registered, what input it takes, and the handle it works with."""
