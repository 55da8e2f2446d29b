"""Training of mask decoders with simulated annotators in the loop."""
