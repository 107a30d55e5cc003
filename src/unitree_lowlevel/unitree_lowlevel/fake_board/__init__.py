"""A motor board for the desk: the real protocol over UDP, with simulated joints and faults behind it."""
