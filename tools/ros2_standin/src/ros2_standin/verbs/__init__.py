"""One file a verb: `SUMMARY`, `add_arguments(parser)` and `run(arguments) -> exit code`."""
