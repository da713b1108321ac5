"""The agents' login: it must be the restricted role, and have no rights beyond what `threadline db
upgrade` grants.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from threadline.db.engine import Database
from threadline.errors import Permanent

AGENT_ROLE = "threadline_agent"

_EXCESS_PRIVILEGES = """
WITH me AS (SELECT * FROM pg_roles WHERE rolname = current_user)
SELECT 'it is a superuser, or may make roles or databases, replicate, or pass row security'
FROM me
WHERE rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls
UNION ALL
SELECT 'it belongs to the role ' || r.rolname FROM me JOIN pg_auth_members m ON m.member = me.oid
    JOIN pg_roles r ON r.oid = m.roleid
UNION ALL
SELECT 'it may read ' || c.oid::regclass
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname NOT IN ('pg_catalog', 'information_schema')
    AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
    AND NOT (n.nspname = 'public' AND c.relkind = 'v' AND c.relname LIKE 'agent\\_%')
    AND has_schema_privilege(n.oid, 'USAGE') AND has_any_column_privilege(c.oid, 'SELECT')
UNION ALL
SELECT 'it may write to ' || c.oid::regclass
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname NOT IN ('pg_catalog', 'information_schema')
    AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
    AND has_schema_privilege(n.oid, 'USAGE')
    AND (has_any_column_privilege(c.oid, 'INSERT, UPDATE')
        OR has_table_privilege(c.oid, 'DELETE, TRUNCATE'))
UNION ALL
SELECT 'it may run ' || f.oid::regprocedure || ' with the rights of its owner'
FROM pg_proc f JOIN pg_namespace n ON n.oid = f.pronamespace
WHERE f.prosecdef AND NOT (n.nspname = 'public' AND f.proname LIKE 'agent\\_%')
    AND has_schema_privilege(n.oid, 'USAGE') AND has_function_privilege(f.oid, 'EXECUTE')
UNION ALL
SELECT 'it may create in the schema ' || n.nspname
FROM pg_namespace n WHERE has_schema_privilege(n.oid, 'CREATE')
UNION ALL
SELECT 'it may create schemas in the database'
WHERE has_database_privilege(current_database(), 'CREATE')
UNION ALL
SELECT 'it may make temporary tables'
WHERE has_database_privilege(current_database(), 'TEMPORARY')
ORDER BY 1
"""


@asynccontextmanager
async def agent_database(url: str, *, pool_size: int = 4) -> AsyncIterator[Database]:
    """Connect to the database as the agents' role until the block ends.

    Args:
        url: `postgresql://threadline_agent@…`.
        pool_size: connections that the pool keeps open.

    Raises:
        Permanent: the login is another role than the agents' role.
        Transient: the database is unreachable at the moment.
    """
    async with Database(url, pool_size=pool_size, application="threadline-agents") as database:
        async with database.connect() as connection:
            login = (await connection.exec_driver_sql("SELECT current_user")).scalar_one()
        if login != AGENT_ROLE:
            raise Permanent(
                f"the agent worker must log in as {AGENT_ROLE}, not as {login}: correct its "
                "database URL"
            )
        yield database


async def excess_privileges(database: Database) -> list[str]:
    """Return the login's privileges beyond the agents' role, each as a clause. An admin may have
    granted more than `threadline db upgrade` does.
    """
    async with database.connect() as connection:
        return list((await connection.exec_driver_sql(_EXCESS_PRIVILEGES)).scalars())
