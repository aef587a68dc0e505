"""Reading the tree: branches as values, lanes, verification."""
