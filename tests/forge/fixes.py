"""Diffs of the test repository's program, as an agent's workspace would return them."""


def fix(old: str, new: str) -> str:
    head = "diff --git a/src/cart.py b/src/cart.py\n--- a/src/cart.py\n+++ b/src/cart.py\n"
    return f"{head}@@ -1,2 +1,2 @@\n def total(items):\n-{old}\n+{new}\n"


FIRST = fix("    return sum(items) + 1", "    return sum(items)")
SECOND = fix("    return sum(items) + 1", "    return round(sum(items), 2)")
