"""What the agents' login could do beyond what `threadline db upgrade` grants it: somebody may have given it more."""

import asyncpg

from threadline.db.errors import translate_errors

_EXCESS = """
WITH me AS (SELECT * FROM pg_roles WHERE rolname = current_user)
SELECT 'it is a superuser, or may make roles or databases, replicate, or pass row security' FROM me
WHERE rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls
UNION ALL
SELECT 'it belongs to the role ' || r.rolname FROM me JOIN pg_auth_members m ON m.member = me.oid
    JOIN pg_roles r ON r.oid = m.roleid
UNION ALL
SELECT 'it may read ' || c.oid::regclass FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
    AND NOT (n.nspname = 'public' AND c.relkind = 'v' AND c.relname LIKE 'agent\\_%')
    AND has_schema_privilege(n.oid, 'USAGE') AND has_any_column_privilege(c.oid, 'SELECT')
UNION ALL
SELECT 'it may write to ' || c.oid::regclass FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
    AND has_schema_privilege(n.oid, 'USAGE')
    AND (has_any_column_privilege(c.oid, 'INSERT, UPDATE') OR has_table_privilege(c.oid, 'DELETE, TRUNCATE'))
UNION ALL
SELECT 'it may run ' || f.oid::regprocedure || ' with the rights of its owner'
FROM pg_proc f JOIN pg_namespace n ON n.oid = f.pronamespace
WHERE f.prosecdef AND NOT (n.nspname = 'public' AND f.proname LIKE 'agent\\_%')
    AND has_schema_privilege(n.oid, 'USAGE') AND has_function_privilege(f.oid, 'EXECUTE')
UNION ALL
SELECT 'it may create in the schema ' || n.nspname FROM pg_namespace n WHERE has_schema_privilege(n.oid, 'CREATE')
UNION ALL
SELECT 'it may create schemas in the database' WHERE has_database_privilege(current_database(), 'CREATE')
UNION ALL
SELECT 'it may make temporary tables' WHERE has_database_privilege(current_database(), 'TEMPORARY')
ORDER BY 1
"""


async def excess(pool: asyncpg.Pool) -> list[str]:
    """What the login of `pool` may do and need not, each as a clause; empty when all is as it should be."""
    with translate_errors():
        return [str(row[0]) for row in await pool.fetch(_EXCESS)]
