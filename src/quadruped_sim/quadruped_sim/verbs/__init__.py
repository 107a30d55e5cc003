"""The `fcnet` verbs that need a simulator."""
