"""What people touch: the pages and their API, the command line, the settings."""
