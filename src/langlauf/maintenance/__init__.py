"""Maintenance of a store: attempts without a worker, records past their retention, and orgs to erase."""
