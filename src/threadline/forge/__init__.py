"""Git and its hosts: mirrors and exports that agents work in, and the pull requests that come of it."""
