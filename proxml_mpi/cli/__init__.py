"""Command lines: arguments to settings to story to exit status."""
