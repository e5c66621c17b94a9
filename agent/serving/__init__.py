"""Plug-ins that Datasette is given: this folder is its ``--plugins-dir``."""
