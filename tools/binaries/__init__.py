"""What compiled kernel libraries hold, read without CUDA: for which architectures there is code.

A host library (``*.so``) carries its device code in fat binaries; ``fatbin`` walks them, ``elf`` reads the
files around them, ``cubin`` the kernels within one image, ``library`` answers for a whole file, and
``listing`` gives the answer as lines, so that it can be cited like source. Files are mapped and never loaded,
whatever is in them: a damaged one is a :class:`BinaryError`, in one line.
"""
