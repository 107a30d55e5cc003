"""What the suite's launch files start."""
