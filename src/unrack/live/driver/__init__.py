"""What drives an orchestrator: readings into events, decisions into orders, all of it in a journal."""
