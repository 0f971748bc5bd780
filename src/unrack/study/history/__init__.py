"""What really happened in a trace beside a simulation of it under the rules of its site."""
