-- The image of Postgres runs this once, when it initialises its data: the logins, and the database of `threadline`.
-- Neither login is a superuser. `threadline db upgrade` grants the rights of the agents' login.
\getenv owner_password POSTGRES_OWNER_PASSWORD
\getenv agent_password POSTGRES_AGENT_PASSWORD
CREATE ROLE threadline LOGIN PASSWORD :'owner_password';
CREATE ROLE threadline_agent LOGIN PASSWORD :'agent_password';
CREATE DATABASE threadline OWNER threadline;
-- By default, every role may create large objects, which take room on the disk. The owner `threadline` cannot revoke
-- this right, so the upgrade cannot do it.
\connect threadline
REVOKE EXECUTE ON FUNCTION lo_create(oid), lo_creat(integer), lo_from_bytea(oid, bytea), lo_put(oid, bigint, bytea),
    lowrite(integer, bytea) FROM PUBLIC;
