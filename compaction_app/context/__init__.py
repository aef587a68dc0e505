"""What the model is shown: the request, its budget, pruning and assembly."""
