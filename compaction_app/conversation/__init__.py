"""What a turn does: append, complete, stream, compact, erase."""
