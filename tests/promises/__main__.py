"""`python -m tests.promises` writes docs/guarantees.md."""

from tests.promises import document
from tests.promises.holders import holders
from tests.promises.manifest import APPENDIX, AREAS, PREFACE

if __name__ == "__main__":
    document.write(document.DOCUMENT, document.render(PREFACE, AREAS, APPENDIX, holders()))
