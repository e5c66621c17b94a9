"""The platform is found when it is first asked for, by probing the machine."""

from itertools import chain

_current_platform = None


def other_plugin():
    try:
        import amdsmi

        return "vllm.platforms.other.OtherPlatform"
    except Exception:
        return None


def this_plugin():
    from vllm.platforms import driver

    driver.nvmlInit()
    return "vllm.platforms.this.ThisPlatform" if driver.nvmlDeviceGetCount() > 0 else None


builtin_plugins = {"other": other_plugin, "this": this_plugin}


def resolve():
    found = []
    for name, probe in chain(builtin_plugins.items(), {}.items()):
        if probe() is not None:
            found.append(name)
    names = list(set(found) & set(builtin_plugins.keys()))
    if len(names) != 1:
        raise RuntimeError(f"one platform is needed, not {names}")
    return builtin_plugins[names[0]]()


def __getattr__(name):
    if name == "current_platform":
        global _current_platform
        if _current_platform is None:
            import importlib

            module, _, cls = resolve().rpartition(".")
            _current_platform = getattr(importlib.import_module(module), cls)()
        return _current_platform
    raise AttributeError(name)


def __setattr__(name, value):
    global _current_platform
    _current_platform = value
