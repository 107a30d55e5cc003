"""What fcnet_study adds to the `fcnet` program."""
