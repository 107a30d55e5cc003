"""The whole chain on a desk: policy, topics, bridge, UDP, a motor board with a simulated robot behind it."""

from fcnet_core.names import Mode

LOSSY_LINE = ("backend:=desk", "loss:=0.01", "jitter:=0.002")
ATTEMPTS = 4  # a motor board waits for nobody: on a machine too busy for 500 Hz the bridge trips, or the robot falls


def walk(client, program):
    """Wait for the robot to walk and drive it a little; return whether it did, without a fault or the launch's end."""
    client.mode = ""
    client.newest.clear()
    is_over = lambda: client.mode == Mode.FAULT or not program.alive  # noqa: E731
    client.until(lambda: client.mode == Mode.WALKING or is_over(), "mode walking")
    if not is_over():
        client.until_states()
        began = client.position
        client.drive_until(lambda: is_over() or client.position[0] - began[0] > 0.3, "a walk", vx=0.5)
    return not is_over()


def test_a_robot_behind_a_motor_board_stands_up_walks_and_ends_without_a_trace(start, client):
    for _ in range(ATTEMPTS):
        program = start("launch", "fcnet_controller", "a1.launch.py", *LOSSY_LINE)
        if walk(client, program):
            break
        program.end()
    assert program.alive, f"{client.health.get('fault')}: {program.output}"
    assert client.upright

    assert client.emergency_stop("a1_bridge").success
    client.until_mode(Mode.FAULT)
    responses = []

    def reset_is_refused():  # where the controller was in fault before, a reset may precede the bridge's message
        responses.append(client.call("controller/reset"))
        return not responses[-1].success

    client.until(reset_is_refused, "a refusal of a reset")
    assert "a1_bridge/reset" in responses[-1].message

    program.end()
    assert program.survivors() == {}
    assert "Traceback" not in program.output


def test_a_robot_on_the_network_is_not_moved_by_starting_its_controller(start, client):
    board = start("run", "aliengo_bridge", "fake_board", "--port", "0")
    client.until(lambda: "listens at" in board.output, "a motor board")
    port = board.output.split("listens at 127.0.0.1:")[1].split(";")[0]
    network = ("network.target:=127.0.0.1", f"network.port:={port}", "network.local_port:=0")
    start("launch", "fcnet_controller", "aliengo.launch.py", "backend:=unitree", *network)
    client.until_mode(Mode.PASSIVE)
    client.until(lambda: client.joints and client.imu, "states of the robot")
    client.until(lambda: client.target is not None, "commands of the controller")
    client.drive(1.0, vx=0.5)
    assert client.mode in (Mode.PASSIVE, Mode.FAULT)  # the latter where the machine was too busy for the wire
    assert not client.sent

    def stands_up():
        if client.mode == Mode.FAULT:  # what a user does then
            client.call("aliengo_bridge/reset")
            client.call("controller/reset")
        return client.call("controller/stand_up").success

    client.until(stands_up, "standing up")
    client.until(lambda: client.sent, "targets")
