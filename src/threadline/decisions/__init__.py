"""The decision engine: what to do with a question, and how sure. It is given ports: no Temporal, Slack or SQL."""
