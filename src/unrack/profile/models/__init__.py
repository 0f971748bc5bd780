"""Files that models read, written from fitted curves; one file a model."""
