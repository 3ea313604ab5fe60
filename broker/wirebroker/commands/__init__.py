"""What the command line runs, one module per command."""
