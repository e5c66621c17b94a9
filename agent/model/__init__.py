"""Asking a language model: its endpoint, what it costs, and what an answer looks like."""
