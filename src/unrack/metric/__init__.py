"""What a run was worth: functions of its finished log."""
