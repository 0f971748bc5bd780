"""How fast a job runs, given who shares what with it."""
