-- The trace that a job's request belonged to, as it was told: what the job does later carries it on.

ALTER TABLE jobs ADD COLUMN traceparent TEXT;
ALTER TABLE jobs ADD COLUMN tracestate TEXT;
