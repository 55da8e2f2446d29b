"""Users: simulated people."""
