"""The processes that a benchmark runs beside the product's own, each by `python -m
bench.parts.<name>`.
"""
