"""What the bridges of Unitree's quadrupeds share: a managed node with a 500 Hz loop to the motor board."""
