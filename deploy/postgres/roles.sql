-- Run once, by the image of Postgres, when its data is made: who may log in, and the database that `threadline` owns.
-- Neither login is a superuser. What the agents' login may do, `threadline db upgrade` grants.
\getenv owner_password POSTGRES_OWNER_PASSWORD
\getenv agent_password POSTGRES_AGENT_PASSWORD
CREATE ROLE threadline LOGIN PASSWORD :'owner_password';
CREATE ROLE threadline_agent LOGIN PASSWORD :'agent_password';
CREATE DATABASE threadline OWNER threadline;
-- Everybody may make large objects, which is room on the disk; of what the upgrade grants, its owner cannot take this away.
\connect threadline
REVOKE EXECUTE ON FUNCTION lo_create(oid), lo_creat(integer), lo_from_bytea(oid, bytea), lo_put(oid, bigint, bytea),
    lowrite(integer, bytea) FROM PUBLIC;
