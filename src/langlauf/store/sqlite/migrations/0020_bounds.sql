-- What the stored partials of a job take, and the bound that it has reached: past it, progress and partials are not stored.
ALTER TABLE jobs ADD COLUMN partial_bytes INTEGER NOT NULL DEFAULT 0 CHECK (partial_bytes >= 0);
ALTER TABLE jobs ADD COLUMN limit_reached TEXT CHECK (limit_reached IN ('events', 'partials'));
