"""What trains, calibrates and benchmarks the grader."""
