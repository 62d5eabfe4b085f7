-- name: bytes
-- All tables of the store, with their indexes.
SELECT sum(pg_total_relation_size(oid))::float8 FROM pg_class WHERE relnamespace = 'langlauf'::regnamespace AND relkind = 'r'

-- name: rows_written
SELECT sum(n_tup_ins + n_tup_upd + n_tup_del)::float8 FROM pg_stat_user_tables WHERE schemaname = 'langlauf'

-- name: updates
SELECT n_tup_upd AS updates, n_tup_hot_upd AS hot FROM pg_stat_user_tables WHERE relid = 'langlauf.job_rows'::regclass

-- name: others
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
