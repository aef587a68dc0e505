"""Checkpoints of LangGraph."""
