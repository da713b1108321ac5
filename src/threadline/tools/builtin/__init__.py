"""The toolsets: one file each, with what it needs as a port and its tools in a list `TOOLS`."""
