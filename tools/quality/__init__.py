"""Quality of a running server: are its answers numbers, the same again, the same under load, and right?

Cheap questions first; the first that fails is the last that is asked. :mod:`tools.quality.gate` is the tool.
"""
