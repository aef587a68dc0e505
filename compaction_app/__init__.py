"""Branch-aware chat compaction for Django.

A conversation is a tree of messages. An edit or a regeneration makes a branch. When a branch nears the model's
context window, its older part is summarized in the background, and the summary is stored as one more node of the
tree: its parent is the *anchor*, its ``last_summarized_message`` the *cutoff*. A summary applies to a branch if and
only if its anchor is on that branch, so no branch ever sees what was written on another one.

The public API is :mod:`compaction_app.chat`. Each folder imports only folders below it; docs/architecture.md shows
them.
"""

__version__ = "0.1.0.dev0"
