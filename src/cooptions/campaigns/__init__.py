"""Campaigns: plan many runs, execute those that are missing, keep their scores, draw figures and decide claims."""
