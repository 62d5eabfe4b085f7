"""The HTTP server: sockets, connections, their limits and deadlines, and responses sent in pieces."""
