"""Runs versions over the connection that `threadline.db.migrate` hands in; there is no other way to call it."""

from alembic import context

from threadline.db.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
