// Keeps a page as the server would show it now.
