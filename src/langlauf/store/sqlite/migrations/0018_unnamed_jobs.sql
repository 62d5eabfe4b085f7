-- Jobs of the earlier system that a command imported without knowing the application: a server finds them when it opens the
-- store, and gives them the name of its default analysis. Empty at any other time.
CREATE INDEX idx_jobs_unnamed ON jobs (org_id, ticket) WHERE analysis = '(default)';
