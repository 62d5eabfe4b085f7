-- The functions and the view that callers of the earlier schema know.

DO $$ BEGIN END $$;
