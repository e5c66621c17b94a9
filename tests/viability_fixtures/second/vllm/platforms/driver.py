"""A copy of the driver's management library."""

import ctypes

library = None


def nvmlInit():
    global library
    library = ctypes.CDLL("libnvidia-ml.so.1")


def nvmlDeviceGetCount():
    count = ctypes.c_uint()
    library.nvmlDeviceGetCount_v2(ctypes.byref(count))
    return count.value


def nvmlDeviceGetCudaComputeCapability(handle):
    major, minor = ctypes.c_int(), ctypes.c_int()
    library.nvmlDeviceGetCudaComputeCapability(handle, ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value
