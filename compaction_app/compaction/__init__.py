"""Compacting a branch: deciding, planning, the run, its commit."""
