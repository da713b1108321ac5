"""Slack events and interactions: each becomes one signal to one workflow, and is acknowledged only
after that.
"""
