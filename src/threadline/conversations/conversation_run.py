"""A conversation as its workflow and the steps of it see it."""

from collections.abc import Callable

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from threadline.conversations.contract import FinishedTurn, SpeakingActivities, TalkTurn
    from threadline.conversations.model.conversation import ConversationMarks, Talk

from threadline.threads.calls import BackgroundTasks, attempt


class Conversation:
    """A conversation as its workflow sees it: the state that survives, and what the steps show of themselves."""

    def __init__(self, state: Talk, entered: Callable[[], None]) -> None:
        self.state = state
        self.doing = ""
        """What the step under way does, in words."""
        self.heard = workflow.now().timestamp()
        """When the database last answered: silence counts from then."""
        self.unsayable: list[int] = []
        """Turns whose answer Slack does not take; tried again once it took another, and by the next run."""
        self.background = BackgroundTasks()
        self._entered = entered

    @property
    def marks(self) -> ConversationMarks:
        return self.state.marks

    def merge(self, marks: ConversationMarks) -> None:
        """Take over what the database says, unless newer is known: results arrive in another order than commits."""
        self.heard = workflow.now().timestamp()
        if marks.rev >= self.marks.rev:
            self.state.marks = marks
        self._entered()

    def does(self, what: str) -> None:
        self.doing = what
        self._entered()

    @property
    def stopping(self) -> bool:
        """The turn under way is to end: a person said so, or whoever runs the house."""
        return self.marks.stop_due or self.state.cancelled

    @property
    def stopped_by_operator(self) -> bool:
        return self.state.cancelled and not self.marks.stop_due

    def finished(self, turn: int, finished: FinishedTurn) -> None:
        """Take over what became of a turn."""
        self.state.last = finished.summary or self.state.last
        if finished.post_error:
            self.unsayable.append(turn)
        elif finished.posted:
            self.unsayable = []
        self.merge(finished.marks)

    async def say(self, turn: int) -> None:
        """Post a settled turn's answer that is not posted yet."""
        self.does(f"posting the answer of turn {turn}")
        asked, words = TalkTurn(self.state.thread, turn), f"answer turn {turn}"
        trouble = await attempt(SpeakingActivities.post_answer, asked, summary=words, on_result=self.merge)
        if trouble:
            self.unsayable.append(turn)
        else:
            self.unsayable = []
        self.does("")
