"""The section of the report on pools of devices."""
