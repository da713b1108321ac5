"""Diffs as git writes them, of files that hold the one line `a`, and the ways in which a fix may
touch a path.
"""

BLOB = "1" * 40


def change(path: str, *, mode: str = "100644", old: str = "a", new: str = "b") -> str:
    head = (
        f"diff --git a/{path} b/{path}\nindex {BLOB}..{BLOB} {mode}\n--- a/{path}\n+++ b/{path}\n"
    )
    return f"{head}@@ -1 +1 @@\n-{old}\n+{new}\n"


def addition(path: str, *, mode: str = "100644") -> str:
    head = f"diff --git a/{path} b/{path}\nnew file mode {mode}\nindex {'0' * 40}..{BLOB}\n"
    return f"{head}--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"


def deletion(path: str, *, mode: str = "100644") -> str:
    head = f"diff --git a/{path} b/{path}\ndeleted file mode {mode}\nindex {BLOB}..{'0' * 40}\n"
    return f"{head}--- a/{path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"


def rename(old: str, new: str) -> str:
    return (
        f"diff --git a/{old} b/{new}\nsimilarity index 100%\nrename from {old}\nrename to {new}\n"
    )
