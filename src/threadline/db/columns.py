"""The metadata and the common columns that every `tables.py` declares its tables with."""

from typing import Any

from sqlalchemy import BigInteger, Column, DateTime, Dialect, Identity, MetaData, Numeric, Text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql.operators import OperatorType
from sqlalchemy.types import TypeDecorator, TypeEngine

from threadline.db.values import storable, storable_json

metadata = MetaData()

MOMENT = DateTime(timezone=True)
MONEY = Numeric(14, 6)
SLACK_TIME = Numeric(20, 6)
"""Seconds since 1970 with Slack's six decimals: exact, and ordered, which its text is not."""


class CleanText(TypeDecorator[str]):
    """`text`, bound without the characters that Postgres refuses: NUL and lone surrogates. A value
    compared with such a column is cleaned as well, so that it finds the row it was stored in.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else storable(value)


class CleanJSON(TypeDecorator[Any]):
    """`jsonb`, bound through `storable_json`: a value reads back as it was bound.

    Args:
        none_as_null: as in `JSONB`; None is stored as SQL's NULL, else as JSON's null.
    """

    impl = JSONB
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return storable_json(value)

    def coerce_compared_value(self, op: OperatorType | None, value: Any) -> TypeEngine[Any]:
        """Clean operands that are JSON; `jsonb` also has operators on other types, such as `?` on
        a text.
        """
        operand = self.impl_instance.coerce_compared_value(op, value)
        return self if isinstance(operand, JSONB) else operand


TEXT = CleanText()
JSON = CleanJSON()
JSON_OR_NULL = CleanJSON(none_as_null=True)


def required(name: str, kind: TypeEngine[Any]) -> Column[Any]:
    return Column(name, kind, nullable=False)


def identity() -> Column[int]:
    return Column("id", BigInteger, Identity(always=True), primary_key=True)
