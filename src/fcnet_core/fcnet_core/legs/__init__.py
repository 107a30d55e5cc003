"""Mechanics of the four legs: kinematics, statics, contacts, and motions to stand up, lie down and recover."""
