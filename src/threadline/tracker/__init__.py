"""The issue tracker that people's tickets live in: what it is asked, and what its answers mean."""
