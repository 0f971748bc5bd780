"""What the commands of all orchestrators share: how a driver is driven, replayed, looked at and compared."""
