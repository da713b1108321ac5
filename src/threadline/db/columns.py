"""What every `tables.py` declares its tables with: the metadata that holds them all, and common columns."""

from typing import Any

from sqlalchemy import BigInteger, Column, DateTime, Identity, MetaData, Numeric
from sqlalchemy.types import TypeEngine

metadata = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "fk": "%(table_name)s_%(column_0_name)s_fkey",
    }
)
"""Names constraints as Postgres does by default, so that autogenerate finds them in the migrated schema."""

MOMENT = DateTime(timezone=True)
MONEY = Numeric(14, 6)
SLACK_TIME = Numeric(20, 6)
"""Seconds since 1970 with Slack's six decimals: exact, and ordered, which its text is not."""


def required(name: str, kind: TypeEngine[Any]) -> Column[Any]:
    return Column(name, kind, nullable=False)


def identity() -> Column[int]:
    return Column("id", BigInteger, Identity(always=True), primary_key=True)
