"""What every node of the suite shares."""
