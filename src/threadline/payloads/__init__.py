"""What Temporal is given to keep: encrypted when there is a key, and shown again to who may see it."""
