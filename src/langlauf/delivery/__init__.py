"""Delivery of the outbox: messages are claimed, sent through their channel, and settled."""
