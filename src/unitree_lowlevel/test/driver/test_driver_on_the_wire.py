"""The driver against the fake board over real UDP: bad lines are endured and measured, lost boards are noticed."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

import pytest
from msgspec import structs

from fcnet_core.errors import FcnetError
from fcnet_core.robot import load_robot
from unitree_lowlevel.codec import GEN33, RemoteState
from unitree_lowlevel.driver import DriverMode, MotorDriver
from unitree_lowlevel.fake_board.board import FakeBoard
from unitree_lowlevel.fake_board.faults import BoardFaults
from unitree_lowlevel.fake_board.physics import JointPhysics
from unitree_lowlevel.transport import WireTransport

ALIENGO = load_robot("aliengo")
# A busy machine holds up board and loop together; here it may.
PATIENT = structs.replace(
    ALIENGO.safety,
    state_timeout=0.4,
    frozen_time=0.6,
    command_timeout=0.3,
    max_cycle_gap=0.25,
    max_loop_lateness=0.2,
)
ROBOT = structs.replace(ALIENGO, safety=PATIENT)
PERIOD = 0.002
BAD_LINE = BoardFaults(loss=0.01, jitter=0.002, duplicates=0.02, reordering=0.02)


class Loop:
    """Cycles at 500 Hz, with targets at 50 Hz, in the caller's thread."""

    def __init__(self, board: FakeBoard) -> None:
        self.driver = MotorDriver(ROBOT, PERIOD, remote_lost="stop")
        self.transport = WireTransport(GEN33, board.address, 0)
        self.transport.open()
        self.losses: list[float] = []
        self.driver.activate()
        self.run(0.5, follow=False)

    def run(self, seconds: float, follow: bool = True) -> None:
        """Go on for a while."""
        deadline = time.monotonic()
        for number in range(round(seconds / PERIOD)):
            deadline += PERIOD
            time.sleep(max(0.0, deadline - time.monotonic()))
            reception = self.transport.receive()
            now = time.monotonic()
            if follow and number % 10 == 0:
                self._send(now)
            self.transport.send(self.driver.cycle(now, reception, self.transport.counters))
            if self.driver.packet_loss is not None:
                self.losses.append(self.driver.packet_loss)

    def _send(self, now: float) -> None:
        """Send targets, after a damp where nothing is followed: a busy machine may have held this loop up."""
        if self.driver.mode is DriverMode.DAMPING:
            self.driver.damp()
        self.driver.set_targets(ROBOT.lie_pose, now)

    def until(self, condition: Callable[[], bool]) -> None:
        """Go on until something has happened."""
        for _ in range(250):
            self.run(0.02)
            if condition():
                return
        raise AssertionError(f"nothing within 5 s: {self.driver.mode}, {self.driver.trip}, {self.driver.warnings}")

    def reset(self) -> bool:
        """Ask for a reset; whether it was granted."""
        try:
            self.driver.reset(time.monotonic())
        except FcnetError:
            return False
        return True


@pytest.fixture(params=[True, False], ids=["free_running", "answering"])
def free_running(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture
def connect():
    """A board with faults and a loop that talks to it."""
    with ExitStack() as stack:

        def connect(faults: BoardFaults, **options: object) -> tuple[FakeBoard, Loop]:
            board = stack.enter_context(FakeBoard(GEN33, JointPhysics(ROBOT), faults=faults, **options))
            loop = Loop(board)
            stack.callback(loop.transport.close)
            return board, loop

        yield connect


def test_a_bad_line_does_not_trip_and_its_loss_is_known(connect, free_running):
    _, loop = connect(BAD_LINE, free_running=free_running)
    loop.run(2.0)
    assert loop.driver.trip is None
    loop.until(lambda: loop.driver.mode is DriverMode.FOLLOWING)
    assert sorted(loop.losses)[len(loop.losses) // 2] < 0.04


@pytest.mark.parametrize(
    ("name", "faults"),
    [
        ("stale_state", {"silence": True}),
        ("packet_loss", {"loss": 0.4}),
        ("stale_state", {"other_generation": True}),
        ("frozen_state", {"frozen_tick": True}),
        ("frozen_state", {"frozen_state": True}),
        ("not_finite", {"not_finite": True}),
        ("identity", {"other_robot": True}),
        ("remote_lost", {"remote_lost": True}),
        ("remote_lost", {"remote_frozen": True}),
    ],
)
def test_faults_of_the_board_end_in_damping_and_are_left_by_reset(connect, name, faults):
    board, loop = connect(BoardFaults(remote=RemoteState(ly=0.5)))
    loop.until(lambda: loop.driver.mode is DriverMode.FOLLOWING)
    loop.run(1.2 if name == "remote_lost" else 0.1)
    assert loop.driver.trip is None
    board.faults = replace(board.faults, **faults)
    loop.until(lambda: loop.driver.trip is not None)
    assert loop.driver.trip.name == name
    loop.run(0.1)
    assert not board.commands.last.stiffness.any()
    board.faults = BoardFaults()
    loop.until(loop.reset)
    loop.run(0.2, follow=False)
    assert loop.driver.mode is DriverMode.DAMPING
    loop.until(lambda: loop.driver.mode is DriverMode.FOLLOWING)
