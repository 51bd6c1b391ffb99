"""Commands around one mixture: try the finders, explore it, export it, check what arrives."""
