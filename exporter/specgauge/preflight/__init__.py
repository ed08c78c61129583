"""What is decided before speculation goes live: one folder a capability."""
