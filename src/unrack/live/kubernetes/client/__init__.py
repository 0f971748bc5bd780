"""What the API server of a Kubernetes is asked and told: lists, watches, bindings, statuses, events."""
