"""How much an extract or a ledger keeps and whether it is true: conversations with known facts, and traps."""
