"""Every decision that was ever taken must be taken again: recorded histories, and fingerprints of the command order."""
