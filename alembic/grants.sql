-- What the agents' role may do, as one list. It runs after every upgrade to the newest schema and is safe to repeat.

-- Roles belong to the whole server: the upgrade of another database may create this one at the same moment.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'threadline_agent') THEN
        CREATE ROLE threadline_agent LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;
END $$;

-- It reads the views and calls the functions named agent_*, and nothing else that reads or writes a row.
DO $$
DECLARE
    name text;
BEGIN
    EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
    REVOKE CREATE ON SCHEMA public FROM PUBLIC;
    GRANT USAGE ON SCHEMA public TO threadline_agent;
    REVOKE ALL ON ALL TABLES IN SCHEMA public FROM threadline_agent, PUBLIC;
    FOR name IN SELECT c.oid::regclass FROM pg_class c
                WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'v' AND c.relname LIKE 'agent\_%' LOOP
        EXECUTE format('GRANT SELECT ON %s TO threadline_agent', name);
    END LOOP;
    FOR name IN SELECT p.oid::regprocedure FROM pg_proc p
                WHERE p.pronamespace = 'public'::regnamespace
                  AND p.proname IN ('held_claim', 'append_entries') LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', name);
    END LOOP;
    FOR name IN SELECT p.oid::regprocedure FROM pg_proc p
                WHERE p.pronamespace = 'public'::regnamespace AND p.proname LIKE 'agent\_%' LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', name);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO threadline_agent', name);
    END LOOP;
END $$;

-- By default every role may create large objects, which fill the disk. Only a superuser can change that: where the owner
-- is none, deploy/postgres/roles.sql does it.
DO $$
BEGIN
    REVOKE EXECUTE ON FUNCTION lo_create(oid), lo_creat(integer), lo_from_bytea(oid, bytea), lo_put(oid, bigint, bytea),
        lowrite(integer, bytea) FROM PUBLIC;
EXCEPTION WHEN insufficient_privilege THEN
    NULL;
END $$;
