"""The documents: pages that are generated from the code, and one check of all pages."""
