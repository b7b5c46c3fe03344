"""What every room may use: argument checks, files and locks, optional packages; nothing here knows of trees or features."""
