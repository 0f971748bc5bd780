"""Attachments as files in a shared folder, which a prolog and an epilog of Slurm carry out on the nodes."""
