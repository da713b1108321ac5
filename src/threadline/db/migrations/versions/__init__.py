"""One file a version; `0001_memory.sql` belongs to `0001_memory.py`."""
