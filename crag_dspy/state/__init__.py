"""What a program keeps: tunable values, their checks, saving and loading."""
