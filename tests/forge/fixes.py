"""Diffs of the test repository's program, as an agent's workspace would tell them."""


def fix(old: str, new: str, path: str = "src/cart.py") -> str:
    head = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n"
    return f"{head}@@ -1,2 +1,2 @@\n def total(items):\n-{old}\n+{new}\n"


FIRST = fix("    return sum(items) + 1", "    return sum(items)")
SECOND = fix("    return sum(items) + 1", "    return round(sum(items), 2)")
