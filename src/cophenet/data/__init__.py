"""Sources of (input, label) with their tree and their source/target split; loaders and samplers."""
