"""Files that clients uploaded, and their content in chunks."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_TO_PURGE = "stored_at IS NULL OR deleted_at IS NOT NULL"


def _text(name: str) -> "sa.Column[str]":
    return sa.Column(name, sa.Text, nullable=False)


def _number(name: str, nullable: bool = False) -> "sa.Column[int]":
    return sa.Column(name, sa.BigInteger, nullable=nullable)


def upgrade() -> None:
    op.create_table(
        "files",
        _text("tenant"), _text("id"), _text("name"), _text("mime"), _number("size"), _text("sha256"),
        _text("created_by"), _number("created_at"), _number("stored_at", True), _number("deleted_at", True),
        sa.PrimaryKeyConstraint("tenant", "id", name="files_by_id"),
    )  # fmt: skip
    op.create_index(
        "files_to_purge",
        "files",
        ["created_at"],
        sqlite_where=sa.text(_TO_PURGE),
        postgresql_where=sa.text(_TO_PURGE),
    )
    op.create_table(
        "file_chunks",
        _text("tenant"), _text("file_id"), _number("number"), sa.Column("data", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "file_id", "number", name="file_chunks_by_number"),
    )  # fmt: skip
