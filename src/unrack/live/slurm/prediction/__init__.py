"""When the jobs that wait will start: by what they ask for and by what jobs before them used of that."""
