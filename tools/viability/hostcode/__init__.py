"""Checks on the host, in the C++ and CUDA sources that a library compiles when it runs.

``sources`` finds the functions in the files that were named for compiling, and in what these include;
``follow`` goes through a function as the host would and tells what refuses a device on every way.
"""
