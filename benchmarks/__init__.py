"""What is measured, each a command: `python -m benchmarks.planning`."""
