"""The A1-Walk task of the Body Transformer (Sferrazza et al., CoRL 2024, arXiv 2408.06316) in this suite's simulator.

Gymnasium knows it as "fcnet/A1Walk-v0", see quadruped_sim.environments.
"""
