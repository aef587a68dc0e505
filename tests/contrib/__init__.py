"""Each framework's own runner over the tree. ``make test-frameworks`` installs the frameworks; else these are skipped."""
