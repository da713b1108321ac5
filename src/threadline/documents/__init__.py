"""Documents that strangers wrote: their text is extracted in a child process with little time and memory."""
