"""Kernels that are run, one at a time, to see whether they do what they are for.

What runs under the investigated environment's interpreter is in ``foreign``: it imports nothing of this
project, and travels as it is to a machine that has a GPU and nothing else (:mod:`tools.probe.pack`).
"""
