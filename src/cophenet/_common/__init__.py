"""What every room may use: argument checks, files and locks, optional packages."""
