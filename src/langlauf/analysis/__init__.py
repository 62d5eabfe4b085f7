"""User functions: their registration, their input schema, and the handle that they work with."""
