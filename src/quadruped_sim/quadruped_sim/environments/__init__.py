"""The suite's environments for Gymnasium, which importing this package registers.

import gymnasium, quadruped_sim.environments
env = gymnasium.make("fcnet/Aliengo-v0", terrain="rough")         # see walking.Settings for the settings
envs = gymnasium.make_vec("fcnet/A1-v0", num_envs=32)
"""

import gymnasium

EPISODE = 1000  # control periods: 20 s

for _id, _robot in (("fcnet/Aliengo-v0", "aliengo"), ("fcnet/A1-v0", "a1")):
    gymnasium.register(
        _id,
        entry_point="quadruped_sim.environments.walking:Walking",
        vector_entry_point="quadruped_sim.environments.walking:VectorWalking",
        max_episode_steps=EPISODE,
        kwargs={"robot": _robot},
    )
gymnasium.register("fcnet/A1Walk-v0", entry_point="quadruped_sim.a1_walk.walk:A1Walk", max_episode_steps=EPISODE)
