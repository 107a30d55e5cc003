"""The Unitree A1 behind the suite's topics: bridge, fake motor board and doctor."""
