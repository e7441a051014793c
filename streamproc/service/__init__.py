"""Work that needs processes, a network or a clock around the pure core."""
