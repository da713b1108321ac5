"""`python -m tests.promises` writes docs/guarantees.md."""

from tests.promises import document, manifest

if __name__ == "__main__":
    document.write(document.DOCUMENT, manifest.page())
