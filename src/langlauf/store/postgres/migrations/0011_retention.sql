-- Removing what is old, in small batches.

DO $$ BEGIN END $$;
