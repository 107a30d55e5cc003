"""What `fcnet bench` measures: steps, training, memory and drift, in turn, as ratios with their spread."""
