"""Accounting logs of PBS, OpenPBS and Torque."""
