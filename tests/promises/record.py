"""What is promised of the records that tools read and change."""

from tests.promises.promise import Area, Promise

_TRIED = ("Run against a stand-in that was written from the service's public API pages, and not against the service.",)

RECORD = Area(
    "record",
    "Records are exact",
    "Records are exact, changed all or not at all, and shown to those who may see them.",
    (
        Promise(
            "record:appointments:no-double-booking",
            "Of any number that race for one time, one gets it, by booking or by moving; the others hear what is free.",
            "an exclusion constraint (`db/migrations/versions/0007_tools.sql`, `db/appointments.py`).",
        ),
        Promise(
            "record:appointments:clocks",
            "A time is by the clocks of its place unless it says its own, on the days when clocks change, too; one "
            "that clocks leave out is refused.",
            "`domain/appointments.py`, `db/appointments.py`.",
        ),
        Promise(
            "record:estimates:exact",
            "Totals are exact decimals to the last cent, each figure rounded once.",
            "`domain/estimates.py`, `numeric` in Postgres.",
        ),
        Promise(
            "record:change:whole",
            "A change is made whole or not at all, once for each call, by however many workers it is tried at once; "
            "what does not fit is named, and nothing is changed.",
            "one transaction with the operation's row (`db/operations.py`).",
        ),
        Promise(
            "record:binding:first-stands",
            "A thread is about the first project that it opens until somebody names another, and stays so for what "
            "is said later.",
            "`db/bindings.py`.",
        ),
        Promise(
            "record:team:its-own",
            "Records of another team are not there.",
            "the team in every question (`db/estimates.py`, `db/appointments.py`, `db/knowledge.py`).",
        ),
        Promise(
            "record:cases:for-their-readers",
            "Outside the developers' channels a case is told in the words that were meant for its reporter, and "
            "nothing internal of it.",
            "`activities/case_cards.py`, `domain/audience.py`.",
            ("What ends `privacy:audience:internal-kept-back` ends this.",),
        ),
        Promise(
            "record:knowledge:with-its-source",
            "A question finds passages of the team's documents and where they are from, or hears that nothing is "
            "known.",
            "full-text search (`db/knowledge.py`).",
            ("By words, and not by meaning.",),
        ),
        Promise(
            "record:jira:once",
            "A ticket, a comment or a step whose answer was lost is looked for in Jira, and made once.",
            "a mark in what is made, and of a step the ticket's status (`tools/builtin/jira.py`, `tracker/`).",
            (*_TRIED, "A ticket that is elsewhere after an interrupted step may have been put back: people are told."),
        ),
        Promise(
            "record:builds:once",
            "A build is started once more only once for each attempt, by however many people and tries.",
            "the number of the run's attempt (`tools/builtin/ci.py`, `forge/`).",
            _TRIED,
        ),
        Promise(
            "record:services:no-insides",
            "Whatever Jira or GitHub answers, or fails to, no error names a place, a key or a program's words.",
            "`tracker/`, `forge/`, which pick a side for each fault.",
            _TRIED,
        ),
    ),
)
