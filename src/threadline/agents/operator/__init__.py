"""The mention agent that reads and writes durable records: what it is told before it begins, and what it remembers."""
