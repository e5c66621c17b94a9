from contextlib import contextmanager

_current = None


@contextmanager
def set_current_top_config(config):
    global _current
    before = _current
    _current = config
    try:
        yield
    finally:
        _current = before


def get_current_top_config():
    if _current is None:
        raise AssertionError("no configuration is set")
    return _current
