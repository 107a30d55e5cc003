"""What runs a policy: one model file, several runtimes that agree within 2e-6."""
