"""Private replies: what the bot tells one person in a thread that others read too."""

from temporalio import activity

from threadline.slack.client import Slack
from threadline.threads.contract import PrivateReply, ThreadActivities


class LiveThreadActivities(ThreadActivities):
    def __init__(self, slack: Slack) -> None:
        self._slack = slack

    @activity.defn
    async def reply_privately(self, reply: PrivateReply) -> None:
        await self._slack.whisper(reply.channel, reply.user_id, reply.text, reply.thread_ts)
