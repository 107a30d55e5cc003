"""Steps a policy over states that were recorded, to see what it would have done."""
