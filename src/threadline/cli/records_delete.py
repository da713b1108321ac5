"""`threadline records delete` and `forget-person`: show what would be deleted; delete it with `--yes`."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from threadline.cli import output as telling
from threadline.cli import record_lines
from threadline.cli.knowledge import Team
from threadline.rfps.model import RfpNotFound, Traces
from threadline.rfps.team_members import TeamMember

_MOST = 10
"""Threads, jobs and proposals that are named; of more only the number is."""

Yes = Annotated[bool, typer.Option("--yes", help="Delete for good. Without it, only show what would be deleted.")]


def delete(
    rfp: Annotated[str, typer.Argument(metavar="RFP", help="Id of the RFP, as `threadline records list` shows it.")],
    yes: Yes = False,
    team: Team = "",
) -> None:
    """Delete an RFP for good: its state and its file's text. Its journal and its events stay."""

    async def run() -> None:
        from threadline.wiring.records import records_desk

        async with records_desk(team) as desk:
            try:
                found = await desk.traces(rfp)
            except RfpNotFound as missing:
                if not missing.deleted:
                    raise
                telling.line(f"{missing.sought} is gone already: it was deleted before.")
                return
            for line in _of_rfp(found):
                telling.line(line)
            rfp_id = found.rfp.rfp_id
            if yes:
                await desk.delete(rfp_id)
            telling.line(f"{rfp_id} is deleted." if yes else _not_yet("delete", rfp_id))

    asyncio.run(run())


def forget_person(
    person: Annotated[str, typer.Argument(metavar="PERSON", help="Slack id or name of the person.")],
    yes: Yes = False,
    team: Team = "",
) -> None:
    """Delete a team member, with biography, skills and hours."""

    async def run() -> None:
        from threadline.wiring.records import records_desk

        async with records_desk(team) as desk:
            found = await desk.person(person)
            for line in _of_person(found):
                telling.line(line)
            if yes:
                await desk.forget_person(found.user_id)
            told = f"{found.name} ({found.user_id}) is forgotten, as one of the team."
            telling.line(told if yes else _not_yet("forget-person", found.user_id))

    asyncio.run(run())


def _of_rfp(found: Traces) -> Iterator[str]:
    rfp = found.rfp
    goes = [
        f"its state (version {found.version})" if found.version else "",
        f"the text of {rfp.source_name} ({found.characters:,} characters)" if rfp.source_name else "",
        f"what is remembered of turns about it ({found.memories})" if found.memories else "",
    ]
    yield record_lines.rfp(rfp)
    yield f"Goes for good: {', '.join(filter(None, [*goes, 'its due date and its owner']))}."
    yield (
        f"Stays on record, since nothing deletes those: its journal ({found.entries}) and its events ({found.events}), "
        "under its id, its title and its client; the bot shows them to nobody."
    )
    if found.threads:
        yield f"Bound to it, and told there that it was deleted: {_named(found.threads)}."
    if found.jobs:
        yield f"Jobs about it that are not over, and will find it gone: {_named(found.jobs)}."
    if found.actions:
        yield f"Proposals about it that wait for approval, and could not be carried out: {_named(found.actions)}."


def _of_person(member: TeamMember) -> Iterator[str]:
    goes = [
        f"mail address {member.email}" if member.email else "",
        f"a biography of {len(member.biography):,} characters" if member.biography else "",
    ]
    yield record_lines.member(member)
    yield f"Goes for good: {', '.join(['all of this', *filter(None, goes)])}."
    yield (
        "Stays: what Slack says of whoever asks the bot, and what is remembered of their turns, for "
        "THREADLINE_MEMORY_DAYS; their name where journals, events and RFPs have it."
    )


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(names[:_MOST]) + more


def _not_yet(command: str, identity: str) -> str:
    return f"Nothing was changed: `threadline records {command} {identity} --yes` does it."
