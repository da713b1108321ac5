"""`threadline records`: manage projects, bookable resources, RFPs and team members."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import typer

from threadline.cli import output
from threadline.cli.connections import Team, team_transaction, use_running_stack
from threadline.cli.process import run_async
from threadline.errors import Permanent

if TYPE_CHECKING:
    from threadline.appointments.model import Resource
    from threadline.cli.record_file import ListedProject
    from threadline.db.engine import Transaction
    from threadline.rfps.model import Rfp, RfpFacts, RfpUsage, TeamMember
    from threadline.rfps.store import RfpStore, TeamMemberStore

app = typer.Typer(
    help="Manage projects, bookable resources, RFPs and team members.",
    no_args_is_help=True,
    callback=use_running_stack,
)

_HELP = """Load the records of a file, all or none. Records that exist get the file's rates,
hours and people.

Existing work items, quotes, appointments and RFPs stay as they are. An RFP is matched by its id
or, without one, by its title and client. A team member is matched by the Slack id. An example of a
file:

\b
[\\[project]]
name = "Web shop"
currency = "EUR"
roles = {designer = 800, developer = 900.50}

\b
[\\[resource]]
name = "Meeting room"
time_zone = "Europe/Berlin"
opens = 09:00:00
closes = 17:00:00
weekdays = [1, 2, 3, 4, 5]

\b
[\\[rfp]]
id = "rfp_abc123"
title = "Website relaunch"
client = "Acme"
due_date = 2026-03-31
status = "in progress"
owner = "Ida"

\b
[\\[member]]
user_id = "U024BE7LH"
name = "Ida"
email = "ida@example.com"
role = "Bid writer"
biography = "Ten years of public tenders."
skills = ["tenders", "contract law"]
hours_per_week = 16
"""

_MAX_LISTED = 1_000
"""RFPs, and people, in one list."""
_MAX_NAMED = 10
"""Threads, jobs and proposals that are named; further ones are counted."""
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

Yes = Annotated[
    bool,
    typer.Option("--yes", help="Delete for good. Without it, only show what would be deleted."),
]


@app.command(help=_HELP)
@run_async
async def load(
    file: Annotated[
        Path,
        typer.Argument(
            help="TOML with [\\[project]], [\\[resource]], [\\[rfp]] and [\\[member]]."
        ),
    ],
    team: Team = "",
) -> None:
    from threadline.appointments.store import AppointmentStore
    from threadline.cli.record_file import read_records
    from threadline.rfps.store import RfpStore, TeamMemberStore

    listed = read_records(file)
    made = 0
    async with team_transaction(team) as (tx, team_id):
        for project in listed.projects:
            await _save_project(tx, team_id, project)
        for resource in listed.resources:
            await AppointmentStore(tx).save_resource(team_id, resource)
        for member in listed.members:
            await TeamMemberStore(tx).save(team_id, member)
        for rfp_id, facts in listed.rfps:
            if await _create_unless_there(RfpStore(tx), team_id, rfp_id, facts):
                made += 1
    output.progress(
        f"Loaded from {file}: {len(listed.projects)} projects, {len(listed.resources)} resources, "
        f"{len(listed.members)} people."
    )
    if listed.rfps:
        existing = len(listed.rfps) - made
        output.progress(f"RFPs: {made} new, {existing} existing, which stay as they are.")


async def _save_project(tx: "Transaction", team: str, listed: "ListedProject") -> None:
    """Save a project and its roles. A role that has this rate already is not written: a locked
    project would refuse it.
    """
    from threadline.estimates.model import ProjectRole
    from threadline.estimates.store import EstimateStore

    store = EstimateStore(tx)
    project = await store.get_or_create_project(team, listed.name, listed.currency)
    known = set(await store.roles(team, project.project_id))
    for role in (ProjectRole(name, rate) for name, rate in listed.roles.items()):
        if role not in known:
            await store.save_role(team, project.project_id, role)


async def _create_unless_there(
    store: "RfpStore", team: str, rfp_id: str, facts: "RfpFacts"
) -> bool:
    """Create an RFP unless the team has one of its id or, without an id, of its title and client.
    Return whether it was created. An existing RFP stays as it is: its state is changed in a
    thread, where its journal has the reason.

    Raises:
        RfpRefused: it cannot be stored.
        RfpNotFound: the RFP of this id was deleted.
    """
    from threadline.rfps.model import RfpNotFound
    from threadline.slack.model import Thread
    from threadline.tools.model import Author, Change, Operation

    if rfp_id:
        try:
            await store.get(team, rfp_id)
        except RfpNotFound as missing:
            if missing.deleted:
                raise
        else:
            return False
    elif await store.find_by_title(team, facts.title, facts.client):
        return False
    # No conversation has this name, so that the operation is unique.
    operation = Operation(Thread(team, "records", "load"), 0, 0, uuid4().hex)
    change = Change(operation, Author("", "records load"), datetime.now(UTC).timestamp())
    await store.create(change, facts, rfp_id)
    return True


@app.command("list")
@run_async
async def list_records(team: Team = "", as_json: output.Json = False) -> None:
    """List projects (with locks), bookable resources, RFPs by due date, and team members."""
    from threadline.appointments.store import AppointmentStore
    from threadline.estimates.store import EstimateStore
    from threadline.rfps.store import RfpStore, TeamMemberStore

    async with team_transaction(team) as (tx, team_id):
        projects = await EstimateStore(tx).projects(team_id)
        resources = await AppointmentStore(tx).resources(team_id)
        rfps = await RfpStore(tx).listed(team_id, limit=_MAX_LISTED)
        members = await TeamMemberStore(tx).listed(team_id, limit=_MAX_LISTED)
    document = {
        "projects": projects,
        "resources": resources,
        "rfps": [_rfp_document(each) for each in rfps],
        "members": members,
    }
    lines = [
        *(
            f"{each.project_id}: {each.name}, {each.currency}{', locked' * each.locked}"
            for each in projects
        ),
        *map(_resource_line, resources),
        *map(_rfp_line, rfps),
        *map(_member_line, members),
    ]
    nothing = "There are no records yet: `threadline records load FILE` creates those of a file."
    text = "\n".join(lines) or nothing
    output.show(document, lambda: output.print_line(text), as_json=as_json)


@app.command()
@run_async
async def lock(
    project: Annotated[str, typer.Argument(help="Id or name of the project.")], team: Team = ""
) -> None:
    """Lock a project: it can be read but not changed."""
    await _lock(project, team, locked=True)


@app.command()
@run_async
async def unlock(
    project: Annotated[str, typer.Argument(help="Id or name of the project.")], team: Team = ""
) -> None:
    """Unlock a project: it can be changed again."""
    await _lock(project, team, locked=False)


async def _lock(project: str, team: str, *, locked: bool) -> None:
    from threadline.estimates.store import EstimateStore

    async with team_transaction(team) as (tx, team_id):
        store = EstimateStore(tx)
        found = await store.project(team_id, project)
        await store.set_locked(team_id, found.project_id, locked=locked)
    output.print_line(
        f"{found.project_id} ({found.name}) {'is locked' if locked else 'can be changed'}."
    )


@app.command()
@run_async
async def delete(
    rfp: Annotated[
        str,
        typer.Argument(
            metavar="RFP", help="Id of the RFP, as `threadline records list` shows it."
        ),
    ],
    yes: Yes = False,
    team: Team = "",
    as_json: output.Json = False,
) -> None:
    """Delete an RFP for good: its state and its file's text. Its journal and its events stay."""
    from threadline.operator.store import MemoryStore
    from threadline.rfps.model import RfpNotFound
    from threadline.rfps.store import RfpStore

    async with team_transaction(team) as (tx, team_id):
        store = RfpStore(tx)
        memories = MemoryStore(tx)
        try:
            usage = await store.usage(team_id, rfp)
        except RfpNotFound as missing:
            if not missing.deleted:
                raise
            sentence = f"{missing.sought} was already deleted."
            document = {"rfp_id": missing.sought, "deleted": True}
            output.show(document, lambda: output.print_line(sentence), as_json=as_json)
            return
        rfp_id = usage.rfp.rfp_id
        count = await memories.count_of_rfp(team_id, rfp_id)
        references = await _references(tx, team_id, rfp_id)
        if yes:
            await store.delete(team_id, rfp_id)
            await memories.forget_rfp(team_id, rfp_id)
    document = {
        "rfp_id": rfp_id,
        "deleted": yes,
        "rfp": _rfp_document(usage.rfp),
        "state_version": usage.version,
        "file_characters": usage.characters,
        "memories": count,
        "journal_entries": usage.entries,
        "events": usage.events,
        **vars(references),
    }
    end = f"{rfp_id} is deleted." if yes else _hint("delete", rfp_id)
    text = "\n".join([*_usage_lines(usage, count), *_reference_lines(references), end])
    output.show(document, lambda: output.print_line(text), as_json=as_json)


@app.command("forget-person")
@run_async
async def forget_person(
    person: Annotated[
        str, typer.Argument(metavar="PERSON", help="Slack id or name of the person.")
    ],
    yes: Yes = False,
    team: Team = "",
    as_json: output.Json = False,
) -> None:
    """Delete a team member, with biography, skills and hours."""
    from threadline.rfps.store import TeamMemberStore

    async with team_transaction(team) as (tx, team_id):
        store = TeamMemberStore(tx)
        found = await _find_person(store, team_id, person)
        if yes:
            await store.forget(team_id, found.user_id)
    forgotten = f"{found.name} ({found.user_id}) is no longer a team member."
    told = [*_person_lines(found), forgotten if yes else _hint("forget-person", found.user_id)]
    text = "\n".join(told)
    document = {"forgotten": yes, "member": found}
    output.show(document, lambda: output.print_line(text), as_json=as_json)


async def _find_person(store: "TeamMemberStore", team: str, words: str) -> "TeamMember":
    """Return the team member of this name or Slack id.

    Raises:
        Permanent: several have this name.
        MemberNotFound: no member has it; the message names similar ones.
    """
    from threadline.rfps.model import MemberNotFound

    try:
        found = await store.named(team, words)
    except MemberNotFound as missing:
        called = dict[str, str]()
        for each in await store.listed(team, limit=_MAX_LISTED):
            called |= dict.fromkeys(
                (each.name.lower(), each.user_id.lower()), f"{each.name} ({each.user_id})"
            )
        near = dict.fromkeys(called[name] for name in get_close_matches(words.lower(), called))
        hint = (
            f"did you mean {' or '.join(near)}?"
            if near
            else "`threadline records list` lists them"
        )
        raise MemberNotFound(f"no team member is called {words[:60]!r}; {hint}") from missing
    if len(found) > 1:
        raise Permanent(
            f"{found[0].name} is the name of several people: give "
            f"{' or '.join(each.user_id for each in found)}."
        )
    return found[0]


def _usage_lines(usage: "RfpUsage", memories: int) -> Iterator[str]:
    rfp = usage.rfp
    goes = [
        f"its state (version {usage.version})" if usage.version else "",
        f"the text of {rfp.source_name} ({usage.characters:,} characters)"
        if rfp.source_name
        else "",
        f"memories of turns about it ({memories})" if memories else "",
    ]
    yield _rfp_line(rfp)
    yield (
        "To be deleted for good: "
        f"{', '.join(filter(None, [*goes, 'its due date and its owner']))}."
    )
    yield (
        f"Kept: its journal ({usage.entries}) and its events ({usage.events}), under its id, "
        "title and client. Nothing deletes these, and the bot no longer shows them."
    )


@dataclass(frozen=True)
class _References:
    """Records that refer to an RFP: threads bound to it as `channel/ts`, the last bound one first,
    and ids of open jobs and of undecided proposals.
    """

    threads: list[str]
    open_jobs: list[str]
    proposals: list[str]


async def _references(tx: "Transaction", team: str, rfp_id: str) -> _References:
    from threadline.approvals.store import ApprovalStore
    from threadline.jobs.model import JobFilter
    from threadline.jobs.store import JobStore
    from threadline.rfps.model import BINDING
    from threadline.threads.store import ThreadBindingStore

    threads = await ThreadBindingStore(tx).threads_of(team, BINDING, rfp_id, _MAX_LISTED)
    about_it = JobFilter(open_only=True, rfp_id=rfp_id)
    jobs = await JobStore(tx).search(team, about_it, limit=_MAX_LISTED)
    return _References(
        [f"{each.channel}/{each.ts}" for each in threads],
        [each.job_id for each in jobs],
        await ApprovalStore(tx).undecided_about(team, rfp_id),
    )


def _reference_lines(found: _References) -> Iterator[str]:
    if found.threads:
        yield (
            "Threads bound to it, where the bot says that it was deleted: "
            f"{_names(found.threads)}."
        )
    if found.open_jobs:
        yield (
            "Open jobs about it, which will not find it once it is deleted: "
            f"{_names(found.open_jobs)}."
        )
    if found.proposals:
        yield (
            "Proposals about it that wait for approval, and cannot be carried out once it is "
            f"deleted: {_names(found.proposals)}."
        )


def _person_lines(member: "TeamMember") -> Iterator[str]:
    goes = [
        f"mail address {member.email}" if member.email else "",
        f"a biography of {len(member.biography):,} characters" if member.biography else "",
    ]
    yield _member_line(member)
    yield f"To be deleted for good: {', '.join(['all of this', *filter(None, goes)])}."
    yield (
        "Kept for THREADLINE_MEMORY_DAYS: their Slack profile, if they have asked the bot, and "
        "the memories of their turns. Kept: their name in journals, events and RFPs."
    )


def _rfp_document(rfp: "Rfp") -> dict[str, Any]:
    return {
        "rfp_id": rfp.rfp_id,
        "title": rfp.title,
        "client": rfp.client,
        "status": rfp.status,
        "due_date": rfp.due_date,
        "owner": rfp.owner,
        "source_name": rfp.source_name,
        "created_at": rfp.created_at,
    }


def _resource_line(resource: "Resource") -> str:
    days = ", ".join(_DAYS[day - 1] for day in resource.weekdays)
    hours = f"{resource.opens:%H:%M} to {resource.closes:%H:%M} {resource.time_zone}"
    return f"{resource.name}: {hours}, {days}"


def _rfp_line(rfp: "Rfp") -> str:
    from threadline.rfps.model import status_words

    due = f"due {rfp.due_date}" if rfp.due_date else ""
    told = (rfp.title, rfp.client, status_words(rfp.status), due, rfp.owner)
    return f"{rfp.rfp_id}: {', '.join(filter(None, told))}"


def _member_line(member: "TeamMember") -> str:
    skills = f"can {', '.join(member.skills)}" if member.skills else ""
    told = (member.role, f"{member.hours_per_week} hours a week", skills)
    return f"{member.name} ({member.user_id}): {', '.join(filter(None, told))}"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(names[:_MAX_NAMED]) + more


def _hint(command: str, identity: str) -> str:
    return f"Nothing was changed: `threadline records {command} {identity} --yes` does it."
