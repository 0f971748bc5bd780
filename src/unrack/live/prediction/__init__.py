"""When jobs that wait will start: by simulation, with what runs of the past tell; of any orchestrator."""
