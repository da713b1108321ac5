"""The tools of the agents: typed functions with a name, their context, and the policies around
each call.
"""
