"""Past decisions of workflows must replay: recorded histories, and fingerprints of the command
order.
"""
