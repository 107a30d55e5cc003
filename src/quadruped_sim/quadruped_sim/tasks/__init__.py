"""Tasks: a settings file each, and the small functions that they compose."""
