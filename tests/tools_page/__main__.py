"""`python -m tests.tools_page` writes what docs/tools.md shows of the code."""

from tests.tools_page import page

if __name__ == "__main__":
    page.PAGE.write_text(page.renewed(page.PAGE.read_text("utf-8")), "utf-8")
