"""The graph of a function with branches and loops, found by recording the function many times."""
