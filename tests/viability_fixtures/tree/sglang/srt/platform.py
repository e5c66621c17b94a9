from functools import lru_cache

import torch


def get_device_capability(device_id=0):
    major, minor = None, None
    if torch.cuda.is_available():
        major, minor = torch.cuda.get_device_capability(device_id)
    return major, minor


@lru_cache(maxsize=1)
def is_new_enough():
    return get_device_capability()[0] >= 10
