"""Alembic's entry: runs the migrations on the connection that `app.store.migrate` hands over."""

from alembic import context

from app.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, transactional_ddl=True)
# The caller's transaction covers the schema change and the version together: a crash leaves neither.
context.run_migrations()
