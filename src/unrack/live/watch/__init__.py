"""What operators watch: metrics, health, logs, and the service that systemd keeps alive."""
