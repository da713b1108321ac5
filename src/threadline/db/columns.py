"""Kinds of columns that several tables have."""

from typing import Any

from sqlalchemy import BigInteger, Column, DateTime, Identity, Numeric
from sqlalchemy.types import TypeEngine

MOMENT = DateTime(timezone=True)
MONEY = Numeric(14, 6)
SLACK_TIME = Numeric(20, 6)
"""Seconds since 1970 with Slack's six decimals: exact, and ordered, which its text is not."""


def must(name: str, kind: TypeEngine[Any]) -> Column[Any]:
    return Column(name, kind, nullable=False)


def serial() -> Column[int]:
    return Column("id", BigInteger, Identity(always=True), primary_key=True)
