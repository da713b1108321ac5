"""The toolsets that come with the product, one file each with a list `TOOLS`."""
