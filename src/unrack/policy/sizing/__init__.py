"""Jobs with a size that a policy chooses or changes: moldable, malleable and evolving ones."""
