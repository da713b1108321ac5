"""What is promised of jobs, which run later."""

from tests.promises.promise import Area, Promise

JOB = Area(
    "job",
    "Jobs run when they are due",
    "A job runs when it is due, says what it has to say once, and ends when it is cancelled.",
    (
        Promise(
            "job:run:due",
            "A job runs at its moment, a reminder by the date that it is about, a cron each time; a crash between its "
            "row and its start is mended.",
            "a workflow or a schedule under the row's own id (`activities/job_desk.py`, `bootstrap/jobs.py`).",
            ("What a cron missed while Temporal was away for more than six hours is not made up for.",),
        ),
        Promise(
            "job:run:once",
            "A run says what it has to say, and asks what it has to ask, once, however often it is begun or broken "
            "off.",
            "a key of the job and the run (`activities/job_work.py`).",
        ),
        Promise(
            "job:run:for-who-is-there",
            "A job posts and asks for somebody only as long as they may read the channel; else it says why not.",
            "Slack is asked at every run (`slack/channels.py`), and the door for a question (`gateway/dispatch.py`).",
            ("A reminder in the thread where it was asked for is posted there whoever has left.",),
        ),
        Promise(
            "job:run:trouble-said",
            "Why a run failed is said in the job's thread, however long Slack is away; of a cron once, until it fails "
            "otherwise.",
            "`workflows/agent_job.py`, without an end of tries (`contracts/options.py`).",
        ),
        Promise(
            "job:cancel:ended",
            "A cancelled job does not begin any more, and what it has begun is finished; a schedule that outlives its "
            "job ends when it fires next.",
            "`db/agent_jobs.py`, `activities/agent_jobs.py`.",
        ),
        Promise(
            "job:cancel:by-whom",
            "A job is cancelled for who asked for it, for an approver, or in a channel where it was asked for or "
            "posts; for others it is refused. Who has asked for it is told in its thread who else has cancelled it.",
            "`activities/job_desk.py`.",
            (
                "Whoever may cancel workflows in Temporal's UI may cancel any job, and of that nobody is told.",
                "Where Slack does not take the word at that moment, it stays unsaid.",
            ),
        ),
        Promise(
            "job:told:of-its-channel",
            "What a job was told, and what came of it, is told in the channel where it was asked for alone.",
            "`tools/builtin/jobs.py`.",
            ("That there is a job, of which type, whose and when, is told in every channel of the team.",),
        ),
    ),
)
