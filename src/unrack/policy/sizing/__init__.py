"""Jobs whose size a policy chooses or changes: moldable, malleable and evolving ones."""
