"""The command line: thin commands over the composition root and the devstack. No other package
imports it.
"""
