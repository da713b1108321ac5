"""The text of documents that strangers wrote: read in a process of its own, with little time and little memory."""
