-- Run once by the image of PostgreSQL, as its superuser, when the data folder is made. Langlauf's login owns its database and
-- may make the two roles that its functions run as; it is no superuser, so it reaches neither files nor other databases.

\getenv password POSTGRES_PASSWORD

CREATE ROLE langlauf LOGIN NOSUPERUSER NOCREATEDB CREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD :'password';

CREATE DATABASE langlauf OWNER langlauf;

-- Without a password the superuser logs in from inside this container alone: docker compose exec postgres psql -U postgres
ALTER ROLE postgres PASSWORD NULL;
