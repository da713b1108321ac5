"""The stack of the chaos with the product's own limits, a database that counts statements, and
fast sandboxes.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from sqlalchemy import event

from bench.talk import SwiftModel
from tests.chaos.scripted import names
from tests.chaos.stack import CORES, LIMITS, ChaosStack
from threadline_devstack import temporal
from threadline_devstack.models.request import ModelRequest
from threadline_devstack.models.script import ScriptAnswer, ScriptReply
from threadline_devstack.processes import HOST, FreePorts

OWN = "/* scale */"
"""Ends each statement of the harness, so that it is not counted among the product's."""


class ReadingModel(SwiftModel):
    """A model that answers at once with the messages since its last answer, as the oracle
    requires.
    """

    async def answer(self, conversation: ModelRequest) -> ScriptAnswer:
        if conversation.schema_name:
            return await super().answer(conversation)
        said: list[str] = []
        for message in conversation.messages:
            if message.get("role") == "assistant":
                said.clear()
            elif message.get("role") == "user":
                said.append(str(message["content"]))
        return ScriptReply(names(said))


def _addresses() -> dict[str, str]:
    ports = FreePorts(usual=False)
    return {name: f"{HOST}:{ports.take(0)}" for name in CORES}


@dataclass
class ScaleStack(ChaosStack):
    """Args:
    metrics: the addresses at which core workers serve Temporal's metrics, by the worker's
        name.
    """

    limits: ClassVar = {
        name: LIMITS[name] for name in ("THREADLINE_ONCALL", "THREADLINE_LOG_LEVEL")
    }
    """Settings of the chaos, except for those that shorten times."""
    server_options = temporal.UNHURRIED
    model_class = ReadingModel
    ready_within = 600.0
    """A worker that starts beside ten thousand busy threads takes its time."""

    metrics: dict[str, str] = field(default_factory=_addresses)

    async def _set_up_postgres(self) -> None:
        """Configure Postgres to be as safe as in production, and to count statements."""
        engine = self.database._engine.sync_engine
        event.listen(engine, "before_cursor_execute", _marked, retval=True)
        event.listen(engine, "do_connect", _without_hurry)
        await self._execute(
            "ALTER SYSTEM SET shared_preload_libraries = pg_stat_statements",
            "ALTER SYSTEM SET track_io_timing = on",
        )
        await self.stop("postgres")
        await self._execute("CREATE EXTENSION pg_stat_statements", "CREATE EXTENSION pgstattuple")

    def _arguments(self, name: str) -> tuple[str, ...]:
        if name == "gateway":
            return super()._arguments(name)
        return (
            "tests.scale.worker",
            *(("core", self.metrics[name]) if name in CORES else ("agents",)),
        )


def _marked(
    _connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any
) -> tuple[str, Any]:
    return f"{statement} {OWN}", parameters


def _without_hurry(_dialect: Any, _record: Any, _arguments: Any, options: dict[str, Any]) -> None:
    """Let a statement of the oracle read the rows of ten thousand threads."""
    options |= {"command_timeout": 600, "server_settings": {"application_name": "oracle"}}
