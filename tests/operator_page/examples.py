"""Messages that docs/operator.md goes through with the rules as they are."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    """`bound`: what its thread is bound to."""

    text: str
    bound: str = ""


FLOWS = (
    Example("Update the status to proposal submitted for rfp_abc123"),
    Example("What can you do?"),
    Example("Upload this file as a new opportunity"),
    Example("What's the status?", bound="rfp_xyz789"),
)
"""The four example flows of the design, in its order."""

MORE = (
    Example("What's the status?"),
    Example("Add a journal entry: the client has called"),
    Example("Add a journal entry: the client has called", bound="rfp_xyz789"),
    Example("Who writes the proposal?"),
    Example("Show me every proposal that is due this week"),
    Example("agent job status, please"),
    Example("Agent job status for <https://rfps.example/rfp_abc123|this one>"),
    Example("Compare `RFP_ABC123` with rfp_xyz789."),
    Example("Is this forbidden?"),
    Example("link rfp_abc123"),
    Example("link rfp_..."),
    Example("where?", bound="rfp_xyz789"),
    Example("Where is the file?"),
)
