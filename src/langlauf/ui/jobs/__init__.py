"""The page of one job, and what a person may do with it there."""
