-- A login that runs the program and owns nothing: it may call the functions, and has no right on any table of jobs. Run it in
-- the database of the store, once `langlauf migrate` has made it; what later versions add is given to it by `langlauf migrate`.
GRANT USAGE ON SCHEMA langlauf TO {{login}};
GRANT SELECT ON langlauf.migrations TO {{login}};
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA langlauf TO {{login}};
