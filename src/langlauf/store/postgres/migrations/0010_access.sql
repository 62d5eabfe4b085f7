-- Keys of orgs, what signatures are made with, and what is looked at over all orgs.

DO $$ BEGIN END $$;
