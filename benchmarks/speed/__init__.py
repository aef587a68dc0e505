"""Times a chat turn and its parts beside the bare database, and beside what people use instead: ``make bench``."""
