"""E-mail: letters on their way to a mail server."""
