"""Adapters by which other libraries are measured beside this app, each in an environment of its own."""
