"""A carrier of data over TCP, for processes that no launcher of MPI has started."""
