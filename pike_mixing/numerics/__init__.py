"""What several rules compute alike: laws of falling losses, Gramians, points of a simplex."""
