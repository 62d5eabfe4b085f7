"""Messages on their way out: what waits in the outbox is claimed, sent by its channel, and settled."""
