"""What a probe runs under the interpreter of the investigated environment: the standard library, and torch.

``run`` is the program: it supervises ``worker``, which calls kernels and judges what they give (``gate``).
"""
