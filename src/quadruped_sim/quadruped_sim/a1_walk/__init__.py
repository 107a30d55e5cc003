"""The A1-Walk task of the Body Transformer (Sferrazza et al., CoRL 2024, arXiv 2408.06316) in this suite's simulator.

Importing this package registers it with Gymnasium: `gymnasium.make("quadruped_sim.a1_walk:fcnet/A1Walk-v0")`.
"""

import gymnasium

from quadruped_sim.a1_walk.walk import PERIODS

gymnasium.register("fcnet/A1Walk-v0", entry_point="quadruped_sim.a1_walk.environment:A1Walk", max_episode_steps=PERIODS)
