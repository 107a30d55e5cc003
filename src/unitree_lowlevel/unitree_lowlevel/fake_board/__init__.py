"""A simulated motor board: the real protocol over UDP, with simulated joints and faults behind it."""
