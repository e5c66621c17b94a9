import functools
import inspect

import torch


class BackendSupportedError(Exception):
    pass


def get_compute_capability(device):
    return torch.cuda.get_device_capability(device.index)


def supported_compute_capability(supported_ccs):
    validated = {int(cc) for cc in supported_ccs}

    def decorator(func):
        func._supported_ccs = validated

        def is_compute_capability_supported(cc):
            return cc in validated

        func.is_compute_capability_supported = is_compute_capability_supported
        return func

    return decorator


def backend_requirement(backend_checks, common_check=None):
    def decorator(func):
        sig = inspect.signature(func)

        def is_backend_supported(backend, cc=None):
            if backend not in backend_checks:
                return False
            checker = backend_checks[backend]
            if cc is None:
                return True
            if hasattr(checker, "is_compute_capability_supported"):
                return checker.is_compute_capability_supported(cc)
            return False

        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            bound = sig.bind(*args, **kwargs)
            bound.apply_defaults()
            given = dict(bound.arguments)
            backend = given.get("backend")
            capability = None
            for value in given.values():
                if isinstance(value, torch.Tensor):
                    major, minor = get_compute_capability(value.device)
                    capability = major * 10 + minor
                    break
            if not is_backend_supported(backend, capability):
                raise BackendSupportedError(
                    f"{func.__name__} does not support backend '{backend}' with capability {capability}"
                )
            if common_check is not None and not common_check(**given):
                raise ValueError("Problem size is not supported")
            return func(*args, **kwargs)

        return wrapper

    return decorator
