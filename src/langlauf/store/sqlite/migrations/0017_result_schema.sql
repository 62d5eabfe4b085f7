-- The schema of a result as the earlier system named it, where that is a text (`v1`): an export gives it back as it came.
ALTER TABLE job_results ADD COLUMN schema_text TEXT;
