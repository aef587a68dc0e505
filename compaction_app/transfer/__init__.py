"""Import and export of conversations, replay bundles."""
