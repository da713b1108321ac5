"""What is promised of what is too much, or said twice."""

from tests.promises.promise import Area, Promise

GUARD = Area(
    "guard",
    "Too much, and the same again",
    "Who says the same again, or too much at once, gets no answer to that and sees so; a retry is never taken for it.",
    (
        Promise(
            "guard:duplicate:two-minutes",
            "The same words of the same person in the same thread within 120 s are answered once, counted from when "
            "they were last said.",
            "one statement, behind a lock of what was said, by whom and where (`db/limits.py`).",
            ("What people say to each other is not judged.",),
        ),
        Promise(
            "guard:duplicate:answer-exempt",
            "While a question of the bot is open, an answer may be the same twice.",
            "the open question in the conversation's row (`activities/conversation.py`).",
        ),
        Promise(
            "guard:user:ten-a-minute",
            "Of more than ten messages of one person within 60 s the first is told that it is too much, and the rest "
            "of the window gets no answer; the window slides.",
            "one statement, behind a lock of the person (`db/limits.py`).",
            ("What people say to each other counts for nothing.",),
        ),
        Promise(
            "guard:verdict:stands",
            "A message is judged once: asked again, by another worker or at the same moment, the verdict is the same.",
            "verdicts under the message's id (`db/limits.py`, `db/conversation_intake.py`).",
        ),
        Promise(
            "guard:verdict:shown",
            "Each message to the bot shows what became of it: :eyes: stored, :repeat: a duplicate, :hourglass: too "
            "much; and it is told once that it is too much.",
            "`workflows/conversation.py`, with what is stored as verdict.",
            ("Reactions are cosmetic: tried twice, and left out when Slack is busy.",),
        ),
        Promise(
            "guard:trouble:open",
            "A guard that cannot be asked lets everything pass, and is counted.",
            "`activities/conversation.py`: the event `guard_open`, and the metric `threadline_guard_open`.",
        ),
    ),
)
