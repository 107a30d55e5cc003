"""Model-based experts that the policies imitate."""
