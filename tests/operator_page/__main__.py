"""`python -m tests.operator_page` writes what docs/operator.md shows of the code."""

from tests.operator_page import page

if __name__ == "__main__":
    page.PAGE.write_text(page.renewed(page.PAGE.read_text("utf-8")), "utf-8")
