"""From pages to quantities: pure functions of values and times given as arguments."""
