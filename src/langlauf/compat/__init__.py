"""Earlier systems: their JSON store, which is imported and exported, and the table that is adopted on PostgreSQL."""
