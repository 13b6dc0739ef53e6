"""The parts of a message between processes: faults, arrays, transport."""
