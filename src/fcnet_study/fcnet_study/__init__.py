"""Comparisons of policies: how fast they step and train, what they need of data, where the energy of signals is, which
joint looks at which.
"""
