"""Rules for GPUs: which machines and which of their GPUs a job gets."""
