"""Reads of other agents made again on a chosen environment: what has become of what they saw.

Only reads that came out as typed calls are made, by this program's own code on the environment's files; no
shell, no program and no host of the session is ever started.
"""
