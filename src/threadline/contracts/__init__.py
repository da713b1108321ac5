"""What a workflow may ask for: activity signatures without bodies, and one table of timeouts and retries."""
