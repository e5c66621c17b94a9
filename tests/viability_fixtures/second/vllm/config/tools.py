"""The decorator of every configuration class: no dataclass by name, and one all the same."""

from dataclasses import dataclass


def settings(cls=None, **kwargs):
    def decorator(cls):
        return dataclass(cls, **kwargs)

    return decorator if cls is None else decorator(cls)
