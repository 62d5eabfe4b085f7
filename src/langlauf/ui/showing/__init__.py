"""Results become something to look at: each view of a snapshot is a panel of a page."""
