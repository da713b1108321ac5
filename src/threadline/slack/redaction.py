"""Redaction of what Slack defines."""

from dataclasses import replace

from threadline.privacy.redaction import redact
from threadline.slack.model import FileRef


def redact_files(files: tuple[FileRef, ...]) -> tuple[FileRef, ...]:
    """The references, without secrets in the files' names."""
    return tuple(replace(file, name=redact(file.name)) for file in files)
