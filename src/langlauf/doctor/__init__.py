"""What an operator runs first: looks at a store, its servers and its settings, and says what to do next."""
