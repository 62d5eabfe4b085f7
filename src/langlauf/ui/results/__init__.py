"""The permanent pages of results: one snapshot, its files and downloads, and two of them side by side."""
