"""What is promised of customers, meetings and mails."""

from tests.promises.promise import Area, Promise

SALES = Area(
    "sales",
    "Customers are told what is true",
    "A customer's record, a meeting and a mail are changed, booked and sent once, with a trace.",
    (
        Promise(
            "sales:crm:traced",
            "Each field of a lead or a company that a tool changes leaves a row that says who, when, from what to what "
            "and in which call, in the transaction of the change; the rows are not rewritten, and a call that is tried "
            "again leaves none twice.",
            "`db/crm.py`, a trigger (`db/migrations/versions/0016_sales.sql`), the operation's row "
            "(`db/operations.py`).",
            ("A lead that is deleted in the database takes its rows with it.",),
        ),
        Promise(
            "sales:crm:its-own",
            "Leads of another team are not there; a guest, somebody of another company and whomever Slack does not "
            "know see and change their own lead and no other, of its company the name alone, and nobody more who asks "
            "in the same turn.",
            "the team in every question (`db/crm.py`), what Slack says of who asks (`activities/customers.py`).",
        ),
        Promise(
            "sales:crm:context",
            "A decision is told who asks from the customers' record, in at most 2,000 characters, and from Slack's "
            "profile where the record knows nobody.",
            "`domain/crm.py`, `bootstrap/deciding.py`, `activities/situations.py`.",
        ),
        Promise(
            "sales:meeting:one-way",
            "A model is offered one tool that books and one that tells free times; what was proposed before by other "
            "names is still carried out.",
            "`instead` of a tool (`tools/access.py`, `tools/builtin/calendar.py`); an approved action is not held to "
            "it (`activities/approval.py`).",
        ),
        Promise(
            "sales:meeting:invited",
            "Who books, moves or cancels an appointment finds an iCalendar file in the thread that says the same "
            "moment in any time zone, on the days when clocks change, too; its UID stays the appointment's, and its "
            "SEQUENCE counts the changes.",
            "`mail/invitations.py`, `activities/inviting.py`, a column that counts (`db/appointments.py`).",
            (
                "Without THREADLINE_SMTP_FROM, or an address of whom it is for, the file is no request that can be "
                "answered: it is METHOD:PUBLISH.",
            ),
        ),
        Promise(
            "sales:meeting:invited-by",
            "An invitation names whom it is for, with the address, only where they ask for it themselves or where all "
            "who ask are of the workspace.",
            "what Slack says of who asks (`activities/inviting.py`).",
            (
                "What an approver lets happen is asked for by whoever proposed it, and not by those who wrote in the "
                "same turn.",
            ),
        ),
        Promise(
            "sales:meeting:invited-once",
            "An invitation is shown once for each state of its appointment; where Slack does not take it, the booking "
            "stands and the model is told.",
            "the ledger of posts, and the file's title in the thread (`slack/uploads.py`).",
            ("Where a worker dies while it shows one, it may be missing: it is not shown twice.",),
        ),
        Promise(
            "sales:mail:drafted-first",
            "A mail is a draft before it is sent, whose beginning is shown in the thread whatever the model says; what "
            "is sent is what was drafted, in the thread in which it was.",
            "a row that nothing changes the words of (`db/letters.py`, `tools/builtin/email.py`).",
        ),
        Promise(
            "sales:mail:approved",
            "Above THREADLINE_EMAIL_RISK a mail goes out only behind the word of an approver who was shown all of it; "
            "where nobody may approve, it is refused. Nobody lowers the risk by putting an address on record.",
            "the approvals of proposed actions (`tools/builtin/proposals.py`, `activities/approval.py`); the risk is "
            "the address's (`domain/letters.py`), and the audit says who has put it there (`db/crm.py`).",
            ("One who puts an address on record for another who then asks is not noticed.",),
        ),
        Promise(
            "sales:mail:at-most-once",
            "A draft is handed to the mail server at most once, by however many calls and tries; where the server has "
            "not confirmed it, that is said, and it is not sent again. What the server refuses stays a draft.",
            "the draft is taken in the database before the server is asked (`db/letters.py`, `activities/outbox.py`); "
            "`mail/smtp.py` tells what was surely not sent from what may have been.",
            (
                "A worker that dies between taking a draft and sending it leaves a mail that was not sent and that is "
                "not sent again: people are told that nobody knows.",
            ),
        ),
        Promise(
            "sales:mail:domains",
            "Nothing is sent to a domain that THREADLINE_EMAIL_DOMAINS does not name when it is sent; a domain stands "
            "for itself and not for those below it.",
            "`domain/letters.py`, asked as a mail is drafted and whenever the draft is taken up "
            "(`activities/outbox.py`).",
        ),
        Promise(
            "sales:mail:headers",
            "No text that a model writes adds a header or a recipient to a mail, or is read in it as another subject.",
            "one line for a subject, one address alone, and no encoded word in either (`domain/letters.py`, "
            "`domain/crm.py`); the message is read back before it is taken to be sent (`mail/messages.py`).",
        ),
        Promise(
            "sales:mail:encrypted",
            "To a server without encryption, or with a certificate that is not trusted, neither a mail nor a password "
            "is sent, unless the setting says that there is none; no message or log line holds the password.",
            "`mail/smtp.py`, `mail/account.py`.",
        ),
    ),
)
