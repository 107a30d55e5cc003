"""Pictures of walks: what is shown, how it looks, from where it is seen, and the file that it becomes."""
