"""What people wrote in a case's threads: stored once, in order, with corrections applied in any order of arrival."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlalchemy import bindparam, func, select, text
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.types import Text

from threadline.db import case_row, failures
from threadline.db.tables import attachments, bug_conversations, cases, threads
from threadline.domain import messages, phrases
from threadline.domain.addressing import Thread, bug_workflow_id
from threadline.domain.bug import CaseStatus, Marks, Reason
from threadline.domain.messages import IncomingMessage

_CORRECTIONS = (messages.EDIT, messages.DELETION)
_REDACTED = "the file was deleted by its author"

_DELETE = text("""
UPDATE bug_conversations o SET message_text = '', redacted_at = now()
FROM bug_conversations d
WHERE d.bug_id = :bug_id AND d.message_type = 'deletion' AND d.correction_of = ANY(:originals)
  AND o.bug_id = d.bug_id AND o.redacted_at IS NULL
  AND (o.message_id = d.correction_of OR o.correction_of = d.correction_of AND o.message_type = 'edit')
""")
_DELETE_FILES = text("""
UPDATE attachments a SET content = NULL, error = :words
FROM bug_conversations d
WHERE d.bug_id = :bug_id AND d.message_type = 'deletion' AND d.correction_of = ANY(:originals)
  AND a.bug_id = d.bug_id AND a.message_id = d.correction_of
""")
_EDIT = text("""
UPDATE bug_conversations o SET message_text = e.message_text, edited_at = to_timestamp(e.version::double precision)
FROM (SELECT DISTINCT ON (correction_of) * FROM bug_conversations
      WHERE bug_id = :bug_id AND message_type = 'edit' AND correction_of = ANY(:originals)
      ORDER BY correction_of, version DESC, seq DESC) e
WHERE o.bug_id = e.bug_id AND o.message_id = e.correction_of AND o.redacted_at IS NULL
  AND o.message_type NOT IN ('edit', 'deletion')
""")
_ENTRIES = text("""
SELECT * FROM agent_conversations
WHERE bug_id = :bug_id AND message_type <> 'edit' AND (said_at, id) > (:said_at, :id)
ORDER BY said_at, id LIMIT :limit
""")


@dataclass(frozen=True)
class Entry:
    """One message as it reads now. `seq` numbers what people wrote; the bot's own posts have 0."""

    seq: int
    sender_type: str
    sender_id: str
    kind: str
    text: str
    at: datetime


class Conversation:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
