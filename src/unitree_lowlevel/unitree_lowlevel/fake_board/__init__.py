"""Emulator of a motor board: the real protocol over UDP, simulated joints, and faults."""
