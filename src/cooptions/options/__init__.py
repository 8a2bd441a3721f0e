"""Joint options: how they are trained, kept, looked at and executed."""
