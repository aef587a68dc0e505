"""Sessions of Google's Agent Development Kit."""
