"""Plays stories: chapters in stories/*.yaml whose steps are verbs, for people's actions and for
expected results.

A step is one verb with its arguments; the verbs are the public methods of `Verbs`. A chapter fails
with `Permanent` if an expected event does not happen, or a result differs.
"""

import inspect
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Self

import yaml
from pydantic import BaseModel, ConfigDict, model_validator

from threadline.approvals.model import APPROVE, REJECT
from threadline.cases.model import CaseStatus, Reason
from threadline.db.rate_limits import USER_RATE
from threadline.errors import Permanent
from threadline.handovers.model import CLOSE, TAKE, UNDO
from threadline.threads.model import SenderType
from threadline_devstack.filling import fill
from threadline_devstack.sample_repository import check_fix
from threadline_devstack.slack.identity import ESCALATIONS, REPORTS, SUMMARIES
from threadline_devstack.slack.workspace import PEOPLE
from threadline_devstack.stories.scene import Scene, contains_all, message_text

Steps = list[dict[str, dict[str, Any]]]
_PEOPLE = {person.name.replace(" ", "-"): person.id for person in PEOPLE}
_BUTTONS = {"take over": TAKE, "close": CLOSE}
_DECISIONS = {"approve": APPROVE, "reject": REJECT}


class Chapter(BaseModel):
    """A part of a story. `name` is for tests, `title` for people."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    title: str
    steps: Steps

    @model_validator(mode="after")
    def _known_verbs(self) -> Self:
        _check(self.steps)
        return self


class Story(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    chapters: list[Chapter]


@cache
def stories() -> Sequence[Story]:
    """Return all stories, in the order in which the demo plays them.

    Raises:
        ValueError: a file is no story, or has an unknown verb, or a verb with wrong arguments.
    """
    folder = files("threadline_devstack.stories")
    paths = sorted(
        (path for path in folder.iterdir() if path.name.endswith(".yaml")),
        key=lambda path: path.name,
    )
    return [Story.model_validate(yaml.safe_load(path.read_text("utf-8"))) for path in paths]


def chapter(name: str) -> Chapter:
    return next(each for story in stories() for each in story.chapters if each.name == name)


async def play(scene: Scene, *chapters: Chapter | str) -> None:
    """Play chapters, given by object or by name, one after the other. Saved values are available
    to later chapters.
    """
    verbs = Verbs(scene)
    for each in chapters:
        await verbs.all((chapter(each) if isinstance(each, str) else each).steps)


def _check(steps: Steps) -> None:
    for step in steps:
        [(verb, arguments)] = step.items()
        method = getattr(Verbs, verb, None)
        if method is None or verb.startswith("_") or verb == "all":
            raise ValueError(f"there is no verb {verb!r}")
        try:
            inspect.signature(method).bind(None, **arguments)
        except TypeError as error:
            raise ValueError(f"{verb}: {error}") from error
        _check(arguments.get("steps", []))


def _require(holds: object, otherwise: str) -> None:
    """Raise `Permanent` with this message unless the condition holds."""
    if not holds:
        raise Permanent(otherwise)


class Verbs:
    """The verbs of a story. `thread` is a name under which `say` saved one, or `report` or
    `summary` for the case's threads.

    Texts are filled: `{bug_id}` of the case, `{rfp_id}` and `{branch}` once they are known, and
    saved values.
    """

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._threads: dict[str, tuple[str, str]] = {}
        self._sent: dict[str, str] = {}
        self._values: dict[str, Any] = {}

    async def all(self, steps: Steps) -> None:
        for step in steps:
            [(verb, arguments)] = step.items()
            values = {"bug_id": self._scene.bug_id, **self._values}
            inner = {"steps": arguments["steps"]} if "steps" in arguments else {}
            filled = fill(
                {name: value for name, value in arguments.items() if name != "steps"}, values
            )
            await getattr(self, verb)(**filled, **inner)

    # People

    async def report(self, text: str) -> None:
        """Open the case, as the reporter."""
        await self._scene.write_report(text)

    async def say(self, by: str, text: str, thread: str, save: str = "") -> None:
        """Post in a thread, as a person; `save` then names the message."""
        channel, root = self._thread(thread)
        self._sent[save] = self._scene.slack.say(_PEOPLE[by], channel, text, thread=root)

    async def mention(
        self, by: str, text: str, save: str, files: dict[str, str] | None = None
    ) -> None:
        """Mention the bot in #general, as a person, with files by name; `save` then names the
        thread.
        """
        add = self._scene.slack.workspace.add_file
        uploaded = [
            add(name, _PEOPLE[by], content.encode()).id for name, content in (files or {}).items()
        ]
        self._threads[save] = (
            self._scene.channel,
            await self._scene.mention(_PEOPLE[by], text, files=uploaded),
        )

    async def burst(self, by: str, text: str, beyond: int, told_once: str) -> None:
        """Post mentions, `beyond` more than a person may write within a minute. The bot must
        answer one of the surplus ones with the reason, and the others not at all.
        """
        roots = [
            await self._scene.mention(_PEOPLE[by], f"{text} ({number + 1})")
            for number in range(USER_RATE.count + beyond)
        ]

        async def answered() -> bool:
            said = [message for root in roots for message in self._scene.answers(root)]
            told = sum(told_once in message_text(message) for message in said)
            return (len(said) - told, told) == (USER_RATE.count, 1)

        await self._scene.until(
            f"{USER_RATE.count} are answered, and one of the others is told why not", answered
        )

    async def press(self, by: str, button: str, thread: str) -> None:
        """Press a button of the card that asks people to take a thread over."""
        card = await self._scene.until_card(self._thread(thread)[1])
        await self._scene.press(_PEOPLE[by], card, _BUTTONS[button])

    async def decide(self, by: str, button: str, thread: str) -> None:
        """Press a button of the card of a proposed action in a thread."""
        await self._scene.decide(_PEOPLE[by], self._thread(thread)[1], _DECISIONS[button])

    async def reply(self, by: str, thread: str, text: str) -> None:
        """Answer the asker by the card's button *Reply* and its modal."""
        card = await self._scene.until_card(self._thread(thread)[1])
        await self._scene.reply_by_button(_PEOPLE[by], card, text)

    async def undo(self, by: str, card: str, text: str) -> None:
        """Press *Undo* at a reply that waits under a card."""
        preview = await self._scene.until_preview(self._thread(card)[1], text)
        await self._scene.press(_PEOPLE[by], preview, UNDO)

    # The model

    async def hold(self, name: str) -> None:
        self._scene.model.holds.arm(name)

    async def expect_held(self, name: str) -> None:
        await self._scene.model_waits_at(name)

    async def release(self, name: str) -> None:
        await self._scene.model.holds.release(name)

    # The environment

    async def delivered(self) -> None:
        """Wait until the gateway has acknowledged all events."""
        await self._scene.until_delivered()

    async def outage(self, table: str, steps: Steps) -> None:
        """Play the steps while this table is unavailable."""
        async with self._scene.without_table(table):
            await self.all(steps)

    # The bot's messages

    async def expect_post(
        self,
        thread: str,
        contains: Sequence[str] = (),
        lacks: Sequence[str] = (),
        after: str = "",
        save: str = "",
    ) -> None:
        """Expect a message of the bot in a thread, after the message `after`."""
        channel, root = self._thread(thread)
        post = await self._scene.until_post(channel, root, contains, self._sent.get(after, ""))
        said = message_text(post)
        _require(
            not [each for each in lacks if each in said], f"the bot says one of {lacks}: {said}"
        )
        self._sent[save] = post["ts"]

    async def expect_posts(self, thread: str, count: int, contains: Sequence[str] = ()) -> None:
        """Expect this number of the bot's posts in a thread that contain the words."""
        posts = self._scene.posts(*self._thread(thread))
        said = [message_text(post) for post in posts if contains_all(post, contains)]
        _require(
            len(said) == count,
            f"the bot has said this {len(said)} times in place of {count}: {said}",
        )

    async def expect_reaction(self, name: str) -> None:
        """Expect a reaction on the report."""
        scene = self._scene
        await scene.until(
            f"the report has :{name}:", lambda: scene.has_reaction(REPORTS, scene.report, name)
        )

    async def expect_card(self, thread: str, contains: Sequence[str], save: str = "") -> None:
        """Expect a card with these words that asks people to take a thread over; `save` then names
        the card's thread.
        """
        card = await self._scene.until_card(self._thread(thread)[1])
        _require(
            contains_all(card, contains),
            f"the card does not show {contains}: {message_text(card)}",
        )
        self._threads[save] = (ESCALATIONS, card["ts"])

    # The case

    async def expect_case(self, status: str) -> None:
        await self._scene.until_status(CaseStatus(status))

    async def expect_transition(self, reason: str) -> None:
        await self._scene.until_transition(Reason(reason))

    async def expect_stored(self, text: str, sender: str) -> None:
        await self._scene.until_stored(text, sender)

    async def expect_not_stored(self, text: str) -> None:
        stored = [entry.text for entry in await self._scene.conversation()]
        _require(text not in stored, f"“{text}” was stored")

    async def unchanged(self, steps: Steps) -> None:
        """Expect the case and people's messages in it to be the same after the steps."""
        before = await self._case_and_words()
        await self.all(steps)
        _require(await self._case_and_words() == before, "the case has changed")

    async def expect_used(self, messages: Sequence[str]) -> None:
        """Expect ended turns that were about these messages."""
        await self._scene.until_used(*(self._sent[each] for each in messages))

    async def expect_pull_request(self) -> None:
        request = await self._scene.until("a pull request is recorded", self._scene.pull_request)
        self._values["branch"] = request.branch

    async def expect_fix(self, branch: str, file: str) -> None:
        """Expect the test of the bug that is planted in `file` to fail without the branch and to
        pass with it.
        """
        check = await check_fix(self._scene.stack.home.repository, branch, file)
        _require(check.holds, f"the branch {branch} does not fix {check.test}:\n{check.output}")

    async def expect_workflow_ended(self) -> None:
        await self._scene.until_workflow_ended()

    async def expect_no_workspace(self) -> None:
        await self._scene.until_no_workspace()

    # Records and turns

    async def changed(self, rfp_id: str, versions: int, steps: Steps) -> None:
        """Expect the steps to change an RFP's state this number of times; with 0 it stays as it
        is.
        """
        before = await self._scene.state(rfp_id)
        await self.all(steps)
        after = await self._scene.state(rfp_id)
        grown = after.version - before.version
        _require(
            grown == versions and (versions or after == before),
            f"{rfp_id} went {grown} versions on",
        )

    async def expect_rfp(self, rfp_id: str, status: str) -> None:
        found = (await self._scene.state(rfp_id)).document["status"]
        _require(found == status, f"the status of {rfp_id} is {found}")

    async def expect_bound(self, thread: str, rfp_id: str = "") -> None:
        """Expect the thread to be about this RFP, or about any; `{rfp_id}` is its id from then
        on.
        """
        found = await self._scene.bound(self._thread(thread)[1])
        _require(found and rfp_id in ("", found), f"the thread is about {found or 'no RFP'}")
        self._values["rfp_id"] = found

    async def expect_journal(
        self, thread: str, entries: Sequence[dict[str, str]], turn: int = 1
    ) -> None:
        """Expect a turn's journal entries: of each the `rfp_id`, the `kind`, its author as `by`,
        and the beginning of its `text`.
        """
        written = await self._scene.written(self._thread(thread)[1], turn)
        names = {identity: name for name, identity in _PEOPLE.items()}
        told = [{**vars(entry), "by": names.get(entry.author.user_id, "")} for entry in written]
        fits = all(
            str(entry[name]).startswith(value)
            for entry, each in zip(told, entries, strict=False)
            for name, value in each.items()
        )
        _require(fits and len(told) == len(entries), f"the turn has written {told}")

    async def expect_turn(
        self,
        thread: str,
        tools: Sequence[str] | None = None,
        steps_taken: int | None = None,
        branch: str = "",
        agent: str = "",
        turn: int = 1,
    ) -> None:
        """Expect the result of a turn: the called tools, the number of steps, and the route."""
        plan = await self._scene.until_turn_ended(self._thread(thread)[1], turn)
        result = plan.result or {}
        route = plan.route
        _require(
            tools is None or result["tools"] == list(tools),
            f"these tools were called: {result['tools']}",
        )
        _require(steps_taken in (None, result["steps"]), f"it took {result['steps']} steps")
        _require(
            branch in ("", route.branch) and agent in ("", route.agent),
            f"it went by {route.summary}",
        )

    def _thread(self, name: str) -> tuple[str, str]:
        known = {
            "report": (REPORTS, self._scene.report),
            "summary": (SUMMARIES, self._scene.summary),
        }
        return (self._threads | known)[name]

    async def _case_and_words(self) -> tuple[Any, list[str]]:
        said = [
            entry.text
            for entry in await self._scene.conversation()
            if entry.sender_type != SenderType.BOT
        ]
        return await self._scene.case(), said
