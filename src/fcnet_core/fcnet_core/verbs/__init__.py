"""The verbs of the `fcnet` program, one a file; each has SUMMARY, add_arguments(parser) and run(args)."""
