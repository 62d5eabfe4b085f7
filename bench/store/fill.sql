-- What is dropped for a while, and what submitting so many jobs leaves beside them.

-- name: made_for_tables
SELECT type, name, sql FROM sqlite_schema
WHERE type IN ('index', 'trigger') AND sql IS NOT NULL AND tbl_name IN (SELECT value FROM json_each(?))

-- name: name_org
INSERT INTO orgs (org, org_id) VALUES (?, ?) ON CONFLICT DO NOTHING

-- name: name_analysis
INSERT INTO analyses (analysis, name) VALUES (?, ?) ON CONFLICT DO NOTHING

-- name: count_lanes
INSERT INTO lane_rows (org, analysis, waiting)
SELECT org, analysis, count(*) FROM job_rows WHERE started_at IS NULL AND finished_at IS NULL GROUP BY org, analysis
ON CONFLICT (org, analysis) DO UPDATE SET waiting = excluded.waiting

-- name: count_waiting
UPDATE analyses SET waiting = (SELECT coalesce(sum(waiting), 0) FROM lane_rows WHERE lane_rows.analysis = analyses.analysis)
