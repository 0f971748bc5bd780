"""What a placement costs: one small file each."""
