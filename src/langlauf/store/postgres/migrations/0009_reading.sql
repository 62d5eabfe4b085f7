-- Every read of tenant data: one function each, run as a role that sees one org alone.

DO $$ BEGIN END $$;
