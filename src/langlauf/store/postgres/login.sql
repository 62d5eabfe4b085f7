-- A login that runs the program and owns nothing: it may call the functions, and has no right on any table of jobs. Run this in
-- the database of the store after `langlauf migrate`, which also grants what later versions add.
GRANT USAGE ON SCHEMA langlauf TO {{login}};
GRANT SELECT ON langlauf.migrations TO {{login}};
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA langlauf TO {{login}};
