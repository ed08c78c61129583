"""Whether a server without speculation is a candidate for it, and which method to try first."""
