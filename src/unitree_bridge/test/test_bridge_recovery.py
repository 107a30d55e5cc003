"""A bridge lets a robot that lies on its back move only where a parameter and a request say so."""

import pytest

from unitree_lowlevel.fake_board.faults import BoardFaults

ON_ITS_BACK = BoardFaults(tilt=(3.0, 0.0))


@pytest.fixture
def on_its_back(board):
    board.faults = ON_ITS_BACK
    yield
    board.faults = BoardFaults()


def test_a_recovery_is_refused_where_the_parameter_does_not_allow_it(start, client, board, robot, on_its_back):
    start(auto_start=True)
    client.until_driver_mode("damping")
    client.until(lambda: "tilt" in client.health.get("warnings", ""), "a warning of the tilt")
    response = client.call("aliengo_bridge/recover")
    assert not response.success
    assert "allow_recovery" in response.message
    board.commands.reset()
    client.send_targets(None, 0.2)
    client.send_targets(robot.lie_pose, 0.5)
    assert board.commands.last_stiff() is None


def test_where_it_is_allowed_a_request_lets_targets_begin(start, client, board, robot, on_its_back):
    start(auto_start=True, allow_recovery=True)
    client.until_driver_mode("damping")
    client.until(lambda: "tilt" in client.health.get("warnings", ""), "a warning of the tilt")
    board.commands.reset()
    client.send_targets(None, 0.2)
    client.send_targets(robot.lie_pose, 0.5)
    assert board.commands.last_stiff() is None

    def recovers():
        client.send_targets(None, 0.2)
        assert client.call("aliengo_bridge/recover").success
        client.begin(board, robot.lie_pose)
        return board.commands.last_stiff() is not None

    client.until(recovers, "targets that are followed")
    assert client.fault == ""
