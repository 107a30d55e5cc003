"""Recording and playing bags: rosbag2's folders of mcap files."""
