"""Each framework's own runner over the tree. ``make test-frameworks`` installs them; without one its tests skip."""
