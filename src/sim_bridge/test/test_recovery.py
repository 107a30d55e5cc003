"""A robot that has fallen gets up behind the driver of a real robot's bridge, and none of its checks trips."""

import numpy as np
import pytest
from low_level_samples import healthy_state

from fcnet_core.legs.recovery import lying_on
from fcnet_core.names import Mode
from fcnet_core.observation import RobotState
from fcnet_core.robot import load_robot
from fcnet_core.rotation import projected_gravity
from quadruped_sim.controlled_robot import controller_of
from quadruped_sim.evaluation.getting_up import drop
from quadruped_sim.physics.live_robot import MotorDrivenRobot
from quadruped_sim.physics.terrain import Flat, SideSlope
from unitree_lowlevel.codec import PERIOD
from unitree_lowlevel.driver import DriverMode, MotorDriver
from unitree_lowlevel.transport import Reception, TransportCounters

CYCLES_PER_TARGET = 10


class Wired:
    """A robot in MuJoCo, the driver of its motors at 500 Hz, and the controller at 50 Hz."""

    def __init__(self, name, terrain, seed):
        self.robot = robot = load_robot(name)
        self.body = MotorDrivenRobot(robot, terrain, timestep=PERIOD, seed=seed)
        drop(self.body, np.random.default_rng(seed))
        self.body.release()
        self.driver = MotorDriver(robot, PERIOD, allow_recovery=True)
        self.driver.activate()
        self.controller = controller_of(robot, None)  # the first cycles are damped
        self.counters, self.now, self.tick = TransportCounters(), 0.0, 0

    def cycle(self):
        self.now += PERIOD
        self.tick += 2
        seen = self.body.read_sensors()
        state = healthy_state(self.robot, tick=self.tick, **vars(seen))
        self.controller.state = RobotState(seen.position, seen.velocity, seen.orientation, seen.angular_velocity)
        self.counters.received += 1
        command = self.driver.cycle(self.now, Reception(state, self.now), self.counters)
        self.body.drive(command.position, command.velocity, command.torque, command.stiffness, command.damping)
        self.body.advance(1)

    def run(self, seconds):
        """Damped, or with the controller's targets."""
        for number in range(round(seconds / PERIOD)):
            if number % CYCLES_PER_TARGET == 0:
                self._command()
            self.cycle()

    def _command(self):
        targets = self.controller.cycle(self.now)
        if targets is None:
            self.driver.damp("controller")
        else:
            assert self.driver.set_targets(targets, self.now, "controller") is None

    def recover(self):
        self.driver.recover(self.now)
        self.cycle()
        self.controller.recover(self.now)

    @property
    def lies_on(self):
        return lying_on(projected_gravity(self.body.ground_truth().orientation))


@pytest.mark.parametrize(("name", "terrain"), [("aliengo", SideSlope(10.0)), ("a1", Flat())], ids=["aliengo", "a1"])
def test_a_fallen_robot_gets_up_and_nothing_trips(name, terrain):
    turned_over = 0
    for seed in (0, 3):
        wired = Wired(name, terrain, seed)
        wired.run(2.0)
        turned_over += wired.lies_on != "belly"
        wired.recover()
        wired.run(8.0)
        assert wired.driver.trip is None
        assert wired.driver.mode is DriverMode.FOLLOWING
        assert wired.controller.mode is Mode.STANDING
    assert turned_over
