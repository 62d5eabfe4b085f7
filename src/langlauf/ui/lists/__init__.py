"""The lists: jobs, failures by cause, and the inbox."""
