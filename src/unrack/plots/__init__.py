"""Charts of results in Python, and the numbers that charts anywhere are drawn from: functions of result tables."""
