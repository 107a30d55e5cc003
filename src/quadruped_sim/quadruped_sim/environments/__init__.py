"""The suite's environments for Gymnasium, which importing this package registers.

import gymnasium, quadruped_sim.environments
env = gymnasium.make("fcnet/Aliengo-v0", terrain="rough")         # see walking.Settings for the settings
envs = gymnasium.make_vec("fcnet/A1-v0", num_envs=32)
env = gymnasium.make("fcnet/Task-v0", task="my_task.yaml")
"""

import gymnasium

EPISODE = 1000  # control periods: 20 s at 50 Hz

for _id, _settings in {
    "fcnet/Aliengo-v0": {"robot": "aliengo", "pays": "score"},
    "fcnet/A1-v0": {"robot": "a1", "pays": "score"},
    "fcnet/A1Walk-v0": {"task": "a1_walk"},
    "fcnet/Task-v0": {},
}.items():
    gymnasium.register(
        _id,
        entry_point="quadruped_sim.environments.walking:OneRobot",
        vector_entry_point="quadruped_sim.environments.walking:ManyRobots",
        max_episode_steps=EPISODE,
        kwargs=_settings,
    )
