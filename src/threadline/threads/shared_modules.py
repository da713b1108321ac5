"""Modules of which a process has one copy: the workflow sandbox passes them through.

They hold values and rules alone. The sandbox would load them again for each workflow, at fifteen times the memory and
time. Their dataclasses are written without default values (`payload_converter.py`). The ruff ban on clocks, random
numbers and loggers covers each of them (`pyproject.toml`), since a workflow runs their code as its own.
"""

SHARED_MODULES = frozenset(
    {
        "threadline.appointments.model",
        "threadline.approvals.contract",
        "threadline.approvals.model",
        "threadline.cases.audience",
        "threadline.cases.contract",
        "threadline.cases.model",
        "threadline.conversations.contract",
        "threadline.conversations.model.answers",
        "threadline.conversations.model.conversation",
        "threadline.db.rate_limit_rules",
        "threadline.decisions.model",
        "threadline.errors",
        "threadline.estimates.model",
        "threadline.handovers.contract",
        "threadline.handovers.model",
        "threadline.jobs.contract",
        "threadline.jobs.cron",
        "threadline.jobs.model",
        "threadline.jobs.times",
        "threadline.knowledge.model",
        "threadline.models.model",
        "threadline.operator.model.memory",
        "threadline.operator.model.protocol",
        "threadline.operator.model.routing",
        "threadline.operator.model.scope",
        "threadline.privacy.quoting",
        "threadline.privacy.redaction",
        "threadline.privacy.secret_rules",
        "threadline.rfps.model",
        "threadline.sales.model",
        "threadline.slack.model",
        "threadline.slack.rich_text",
        "threadline.slack.text",
        "threadline.slack.text_splitting",
        "threadline.threads.activity_options",
        "threadline.threads.contract",
        "threadline.threads.display",
        "threadline.threads.model",
        "threadline.threads.payload_converter",
        "threadline.threads.phrases",
        "threadline.threads.retrying",
        "threadline.threads.shared_modules",
        "threadline.tools.model",
        "threadline.tools.public_text",
        "threadline.trackers.model",
    }
)
