"""The table of messages under the cards of handovers. Constraints, indexes, defaults and
triggers are in `alembic/`.
"""

from sqlalchemy import Boolean, Column, Integer, Table

from threadline.conversations.tables import conversation_id
from threadline.db.columns import JSON, MOMENT, SLACK_TIME, TEXT, metadata, required

handover_answers = Table(
    "handover_answers",
    metadata,
    conversation_id(primary_key=True),
    Column("message_id", TEXT, primary_key=True),
    *(required(name, Integer()) for name in ("turn", "seq")),
    *(
        required(name, TEXT)
        for name in ("message_type", "sender_type", "sender_id", "message_text", "channel")
    ),
    required("slack_ts", TEXT),
    required("said_at", SLACK_TIME),
    required("correction_of", TEXT),
    required("version", SLACK_TIME),
    *(required(name, TEXT) for name in ("forwarded", "as_written")),
    required("files", JSON),
    required("files_removed", Boolean()),
    *(required(name, TEXT) for name in ("reply_state", "undone_by")),
    *(Column(name, MOMENT) for name in ("redacted_at", "edited_at", "shown_at", "send_at")),
)
