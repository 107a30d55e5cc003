"""Training runs: the folder that each leaves behind, what writes it, and how runs are compared."""
