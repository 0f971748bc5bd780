"""Limits of run time that a policy chooses."""
