"""Messages as values and texts: formats, checks, markers, transcripts, the summary's wrapper."""
