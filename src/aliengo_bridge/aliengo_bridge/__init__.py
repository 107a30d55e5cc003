"""The Unitree Aliengo behind the suite's topics: bridge, fake motor board and doctor."""
