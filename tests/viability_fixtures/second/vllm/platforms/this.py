from functools import cache
from typing import NamedTuple

from vllm.platforms import driver


class Capability(NamedTuple):
    major: int
    minor: int


class ThisPlatform:
    @classmethod
    @cache
    def capability(cls):
        major, minor = driver.nvmlDeviceGetCudaComputeCapability(None)
        return Capability(major=major, minor=minor)

    @classmethod
    def is_family(cls, family):
        return cls.capability().major == family
