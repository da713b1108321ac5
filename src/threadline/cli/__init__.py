"""The bench: thin commands over the composition root and the devstack; nothing imports it."""
