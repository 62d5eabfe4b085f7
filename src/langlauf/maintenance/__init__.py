"""What crashed, ran out of time or grew old; one duty per file."""
