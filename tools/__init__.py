"""Typed tools: each is a pydantic input, a pydantic result, an effect class and a function."""
