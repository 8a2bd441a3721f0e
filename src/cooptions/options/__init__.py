"""Joint options: training, storage, reports and execution."""
