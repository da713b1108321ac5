"""Git and its hosts: mirrors and exports for the agents' work, and the resulting pull requests."""
