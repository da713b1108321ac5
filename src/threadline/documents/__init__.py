"""Documents from strangers: a child process with little time and memory extracts their text."""
