"""Simulated robots behind the controller that commands real ones."""

from collections.abc import Callable

from fcnet_core.arrays import Array
from fcnet_core.control.controller import STANDSTILL, Controller
from fcnet_core.control.runner import JointLimiter, PolicyRunner
from fcnet_core.model_file import PolicyModel
from fcnet_core.names import Mode
from fcnet_core.observation import RobotState, velocity_interface
from fcnet_core.policy import load_policy
from fcnet_core.robot import Robot
from quadruped_sim.physics.live_robot import LiveRobot


def controller_of(
    robot: Robot, state: RobotState, model: PolicyModel | None = None, period: float = 0.02
) -> Controller:
    """Return a controller with this period [s]; without a model it only stands up and lies down."""
    policy = load_policy(model) if model else None
    interface = model.card.interface if model else velocity_interface(robot, 1.0 / period)
    return Controller(robot, state, PolicyRunner(policy, interface, JointLimiter(robot, period)))


class ControlledRobot:
    """Commands `live` by control periods, and calls `after` at the end of each. Only walking needs a `model`.

    Requests go to `controller`, after `measure`.
    """

    def __init__(self, live: LiveRobot, model: PolicyModel | None, after: Callable[[], None] = lambda: None) -> None:
        self.live, self._after = live, after
        self.controller = controller_of(live.robot, live.measure(), model, live.period)

    def measure(self) -> Controller:
        """Let the controller see the robot as it is now; return the controller, for a request."""
        self.controller.state = self.live.measure()
        return self.controller

    def cycle(self, setpoint: Array = STANDSTILL) -> None:
        """Run one control period, with a setpoint (9,) for a robot that walks."""
        now = self.live.time
        self.controller.prepare(now, setpoint)
        self.live.step(self.measure().cycle(now))
        self._after()

    def walk(self, seconds: float, setpoint: Array) -> bool:
        """Let a walking robot follow a setpoint (9,); return False as soon as its controller is in fault."""
        for _ in range(max(round(seconds / self.live.period), 1)):
            self.cycle(setpoint)
            if self.controller.mode is not Mode.WALKING:
                return False
        return True
