"""A bridge that allows a recovery lets a robot on its back move on request."""

from fcnet_core.names import HealthKey
from unitree_lowlevel.driver import DriverMode
from unitree_lowlevel.fake_board.faults import BoardFaults


def test_targets_are_followed_after_a_request_to_recover(start, client, board, robot):
    board.faults = BoardFaults(tilt=(3.0, 0.0))
    start(auto_start=True, allow_recovery=True)
    client.until_driver_mode(DriverMode.DAMPING)
    client.until(lambda: "tilt" in client.health.get(HealthKey.WARNINGS, ""), "a warning of the tilt")

    def is_followed(request):
        board.commands.reset()
        client.send_targets(None, 0.2)
        assert not request or client.call("aliengo_bridge/recover").success
        client.send_targets(robot.lie_pose, 0.5)
        return board.commands.last_stiff() is not None

    assert not is_followed(request=False)
    client.until(lambda: is_followed(request=True), "targets that are followed")
    assert client.fault == ""
