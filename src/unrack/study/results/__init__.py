"""What a study leaves on disk, and how it is read again."""
