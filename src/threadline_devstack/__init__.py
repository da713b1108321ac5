"""The services that a laptop lacks: embedded Postgres, Temporal's dev server, a Slack sandbox and
scripted models.
"""
