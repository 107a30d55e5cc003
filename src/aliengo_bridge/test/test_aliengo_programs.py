"""The executables of this package are those of the Aliengo."""

import pytest
from ros_fixtures import check_program


@pytest.mark.parametrize("program", ["bridge", "fake_board", "doctor"])
def test_every_program_is_that_of_this_robot(program):
    check_program("aliengo", program, other="a1")
