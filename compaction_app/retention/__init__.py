"""What a summary must keep: the extractive engine, the ledger, the score."""
