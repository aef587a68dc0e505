"""An OpenAI-compatible door: a client that sends its whole list with each request gets branches and compaction.

It is an app of its own with one table, for those who install it: ``views.Gateway`` is mounted in ``urls.py``, and
``placing`` finds where in the tree a list goes on.
"""
