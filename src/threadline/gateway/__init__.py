"""The ear: what Slack delivers becomes one signal to one workflow, and only then is it acknowledged."""
